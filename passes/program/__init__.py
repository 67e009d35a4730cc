"""Converts IR to the scheduler's task graph, and schedules (plans) to IR and back."""

"""Converts IR to the scheduler's task graph, and its plan (the schedule) to IR and back."""

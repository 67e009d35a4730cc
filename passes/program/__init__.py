"""Conversion of IR to the scheduler's task graphs, and of its plans (schedules) to IR and back."""

"""Conversion between IR and the scheduler's task graphs and plans (schedules)."""

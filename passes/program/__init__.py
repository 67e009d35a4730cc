"""Builds the scheduler's task graph from IR; converts schedules (plans) to and from IR."""

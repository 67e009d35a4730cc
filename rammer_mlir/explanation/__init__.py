"""Explains, in text for users, the time that a run of a program takes.

An explanation names the bounds that limit the run (for example its critical path), the rOperators
that take longer than their lower bounds, and the times predicted for schedules of other policies.
"""

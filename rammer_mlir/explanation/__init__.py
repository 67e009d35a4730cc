"""Explanations for people: limits of a run, operators that lose time, gains of other schedules."""

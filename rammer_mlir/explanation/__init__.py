"""Readable explanations of a run: its limits, its losses, and the gains of other schedules."""

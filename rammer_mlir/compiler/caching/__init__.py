"""Implements the compile cache: a single file with entries by level and key."""

"""Implements the compile cache: a single file, in which each entry has a cache level and a key."""

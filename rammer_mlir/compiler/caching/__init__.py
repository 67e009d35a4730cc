"""The compile cache: a single file, whose entries are found by level and key."""

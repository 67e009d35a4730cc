"""The cache of optimisation: one file, whose entries are found by level and key."""

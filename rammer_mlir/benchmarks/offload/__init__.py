"""Evaluate code generators: the share of each model that they compile, and its cost and gain."""

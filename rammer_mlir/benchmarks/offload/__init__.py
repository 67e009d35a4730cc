"""Evaluate code generators: how much of models they compile, and the cost and gain of it."""

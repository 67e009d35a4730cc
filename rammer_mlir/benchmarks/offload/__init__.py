"""Evaluate external code generators: their share of models, its cost and its gain."""

"""Limits of NumPy's arrays, which are the inputs and outputs of all programs."""

MOST_DIMENSIONS = 64
"""Largest rank of an array since NumPy 2.0."""

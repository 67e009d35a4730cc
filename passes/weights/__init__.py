"""Weights that the compiler derives from the model's weights."""

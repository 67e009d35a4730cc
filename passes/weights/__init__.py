"""Weights that the compiler computes from the model's."""

"""Computes additional weights from the model's weights at compile time."""

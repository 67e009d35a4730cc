"""Derives weights from the model's weights."""

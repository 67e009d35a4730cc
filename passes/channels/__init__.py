"""Layouts of activations: channels stored in blocks, and padded to whole blocks."""

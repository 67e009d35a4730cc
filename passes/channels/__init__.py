"""Layouts of activations: channels in blocks, and padded to whole blocks."""

"""Operators of one input become one (IOS's operator merge)."""

"""Merges operators with a common input (IOS's operator merge)."""

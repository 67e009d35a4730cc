"""Readings of linalg operations, functions and weights that all passes share."""

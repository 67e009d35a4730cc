"""Readings of products and convolutions, and how products are joined and cut."""

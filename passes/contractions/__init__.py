"""Matches matrix products and convolutions; merges and splits matrix products along rows."""

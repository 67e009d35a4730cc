"""Matches matrix products and convolutions, and batches and splits products."""

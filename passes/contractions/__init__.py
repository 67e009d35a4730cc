"""Matching of matrix products and convolutions, and batching and splitting of products."""

"""Emits matrix products and convolutions that the threads of a block compute jointly."""

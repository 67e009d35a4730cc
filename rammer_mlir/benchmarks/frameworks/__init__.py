"""Models as PyTorch and JAX have them, compiled each way that they can come in, and compared."""

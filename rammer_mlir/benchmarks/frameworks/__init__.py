"""Models of PyTorch and JAX, compiled through each front end that accepts them, and compared."""

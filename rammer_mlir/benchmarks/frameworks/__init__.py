"""Define PyTorch and JAX networks, and compare the front ends that accept PyTorch networks."""

"""Small PyTorch, Keras and JAX models with random weights, and functions that export them."""

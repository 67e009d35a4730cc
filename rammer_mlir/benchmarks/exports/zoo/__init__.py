"""Define small PyTorch, Keras and JAX models with random weights, and export them to ONNX."""

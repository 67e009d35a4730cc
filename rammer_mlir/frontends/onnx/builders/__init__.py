"""Contains builders: for each ONNX operator, a function that emits linalg for a node."""

"""Own builders: a function for each ONNX operator that emits linalg for one node."""

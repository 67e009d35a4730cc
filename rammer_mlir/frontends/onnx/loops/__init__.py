"""Loops of the ONNX graph, rewritten so that each step reads few bytes and appends to nothing."""

"""Folding of constants: NumPy evaluations of ONNX operators, and the sweep that applies them."""

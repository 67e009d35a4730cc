"""Evaluates ONNX operators on NumPy arrays, for constant folding and for host programs.

Evaluators require no package but NumPy, so that a compiled model runs without ONNX.
"""

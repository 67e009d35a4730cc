"""Evaluates ONNX operators on NumPy arrays, for constant folding and for host operations.

They require NumPy alone, so that a compiled model runs without ONNX.
"""

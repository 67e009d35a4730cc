"""ONNX's operators on NumPy arrays: constants are folded by them, and host operations run them.

They need NumPy alone, so that a compiled model runs without ONNX.
"""

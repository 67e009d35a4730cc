"""Regions as JSON graphs that engines run: NumPy, ONNX Runtime and OpenVINO."""

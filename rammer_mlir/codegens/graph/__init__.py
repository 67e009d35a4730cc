"""Regions as graphs in JSON, which engines run: NumPy, ONNX Runtime and OpenVINO."""

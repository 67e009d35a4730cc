"""Translates regions to JSON graphs for the engines NumPy, ONNX Runtime and OpenVINO."""

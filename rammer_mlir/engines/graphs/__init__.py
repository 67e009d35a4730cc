"""Engines that run JSON graphs of ONNX operators."""

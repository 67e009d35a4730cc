"""Contains the engines that run JSON graphs of ONNX operators."""

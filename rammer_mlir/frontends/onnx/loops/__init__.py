"""Rewrites ONNX loops: iterations read fewer bytes, and do not append to sequences."""

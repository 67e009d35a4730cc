"""Rewrites ONNX loops, so that iterations read fewer bytes and do not append to sequences."""

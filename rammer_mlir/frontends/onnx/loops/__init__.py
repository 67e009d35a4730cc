"""Rewrites ONNX loops, so that iterations read fewer bytes and append to no sequence."""

"""Rewrites of ONNX loops that reduce the bytes read per iteration and avoid appending."""

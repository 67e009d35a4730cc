"""Operators of ONNX Runtime's domain, expanded to ONNX operators.

Files that ONNX Runtime's optimizer, its quantizer or an exporter wrote contain them. A table has a
rewriting function for each; unsupported forms are refused in one line.
"""

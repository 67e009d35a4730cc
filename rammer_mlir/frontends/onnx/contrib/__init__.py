"""Operators of ONNX Runtime's own domain, written out in operators of ONNX.

Files that its optimizer, its quantizer or an exporter wrote hold them. A table names a rewriting
function for each; what a function does not cover is refused in one line.
"""

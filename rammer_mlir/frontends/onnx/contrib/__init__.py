"""Operators of ONNX Runtime's domain and of ai.onnx.ml, expanded to ONNX operators.

Files that ONNX Runtime's optimizer, its quantizer or an exporter wrote contain them. A table has a
rewriting function for each; unsupported forms are refused in one line.
"""

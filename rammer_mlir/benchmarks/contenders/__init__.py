"""Run models by the implementations that our compiler is compared with, a module for each.

Each module is imported only when its contender is opened, and has a class that opens an ONNX file
for a number of threads and runs it: see ``Contender``.
"""

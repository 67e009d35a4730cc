"""Run models with our compiler and with the implementations that it is compared with.

Each module is imported only when its contender is opened, and has a class that opens an ONNX file
for a number of threads and runs it: see ``Contender``.
"""

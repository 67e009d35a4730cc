"""What our compiler is measured against: one module for each, loaded only when it is used.

Each holds a class that opens an ONNX file for a number of threads and runs it: see ``Contender``.
"""

"""An interpreter of PTX that is independent of MLIR and LLVM, to check the generated PTX.

Semantics follow NVIDIA's PTX ISA document. Registers are NumPy arrays over the threads of a block.
"""

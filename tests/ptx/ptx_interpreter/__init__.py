"""An interpreter of PTX, apart from MLIR and LLVM: it checks what a GPU's assembler is given.

Semantics follow NVIDIA's PTX ISA document. Registers are NumPy arrays over the threads of a block.
"""

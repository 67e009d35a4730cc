"""Imports MLIR modules of other tools, and modules that the compiler itself printed at a stage."""

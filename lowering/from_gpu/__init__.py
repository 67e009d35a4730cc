"""Launches of GPU kernels, from any MLIR pipeline, as a data-flow graph of rOperators."""

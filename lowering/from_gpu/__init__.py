"""Converts GPU kernel launches, from any MLIR pipeline, to a data-flow graph of rOperators."""

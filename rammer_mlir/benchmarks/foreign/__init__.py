"""Run the functions of MLIR files written elsewhere, and compare the results with IREE's."""

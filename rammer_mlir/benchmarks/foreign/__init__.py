"""Run the functions of foreign MLIR files, and compare the results with IREE's."""

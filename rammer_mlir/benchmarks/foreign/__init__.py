"""Run the functions of MLIR files from other projects, and compare the results with IREE's."""

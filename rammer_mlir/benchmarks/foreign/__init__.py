"""Run the functions of a folder of MLIR files, and compare them with another compiler."""

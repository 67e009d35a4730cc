"""Runs the functions of a folder of MLIR files, and compares them with another compiler."""

"""Imports MLIR modules that other tools produced or that the compiler printed."""

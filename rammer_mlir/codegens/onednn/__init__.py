"""Compiles regions to C code that calls oneDNN's primitives."""

"""Reads and emits linalg operations, functions, weights and rKernels, for all passes."""

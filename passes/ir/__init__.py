"""Helpers for passes to read and emit linalg operations, functions, weights and rKernels."""

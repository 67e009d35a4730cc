"""Helpers of all passes that read and emit linalg operations, functions, weights and rKernels."""

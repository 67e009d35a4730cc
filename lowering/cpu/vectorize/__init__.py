"""Vectorization of an rKernel's loops."""

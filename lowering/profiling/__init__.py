"""Measures individual rKernels: the time of an rTask on this processor."""

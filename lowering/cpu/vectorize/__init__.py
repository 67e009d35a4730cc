"""Vectorizes the loops of an rKernel."""

"""Executes individual rKernels on this processor.

The time of an rTask is measured, and results of external rKernels are checked.
"""

"""Benchmark models, the reference to compare with, and measurements."""

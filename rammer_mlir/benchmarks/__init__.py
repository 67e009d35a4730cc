"""Benchmark the compiler: models, other implementations to compare with, and measurements."""

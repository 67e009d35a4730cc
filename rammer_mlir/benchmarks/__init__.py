"""Benchmarks: models, other ways to run them for comparison, and measurements."""

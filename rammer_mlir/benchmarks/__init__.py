"""Measures the compiler and other inference runtimes on benchmark models."""

"""Implements ``rammer-opt``: its options, inputs, runs and diagnostics."""

"""Partitions models whose shapes or control flow depend on data.

The host runs such a model, and calls its compiled parts.
"""

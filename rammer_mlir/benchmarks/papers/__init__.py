"""Reproduce the figures and tables of RAMMER and IOS, and make tables of our own.

``python -m rammer_mlir.benchmarks.papers``. A *study* measures, predicts or counts; its records are
stored as JSON. An *exhibit* is a figure or a table that is made from the records of studies: one of
a paper, with the published numbers, or our own.
"""

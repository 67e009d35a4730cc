"""Reproduce the figures and tables of the RAMMER and IOS papers, and make tables of our own.

Run ``python -m rammer_mlir.benchmarks.papers``. A *study* measures, predicts or counts; its records
are stored as JSON. An *exhibit* is a figure or a table that is made from the records of studies. It
is either reproduced from a paper, beside the published numbers, or our own.
"""

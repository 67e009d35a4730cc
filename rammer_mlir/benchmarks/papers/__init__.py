"""RAMMER's and IOS's figures and tables, reproduced: ``python -m rammer_mlir.benchmarks.papers``.

A *study* measures, predicts or counts; its records are stored as JSON. An *exhibit* is a figure or
a table of a paper: it shows the records of studies beside the published numbers.
"""

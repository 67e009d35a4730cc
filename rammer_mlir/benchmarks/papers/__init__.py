"""RAMMER's and IOS's figures and tables, made again: ``python -m rammer_mlir.benchmarks.papers``.

A *study* measures, predicts or counts; its records are kept as JSON. An *exhibit* is a figure or a
table of a paper: it lays out the records of studies beside the numbers that the paper published.
"""

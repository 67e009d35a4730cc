"""RAMMER's and IOS's figures and tables, reproduced, and tables of our own.

``python -m rammer_mlir.benchmarks.papers``. A *study* measures, predicts or counts; its records are
stored as JSON. An *exhibit* shows the records of studies as a figure or a table: of a paper, beside
the published numbers, or our own.
"""

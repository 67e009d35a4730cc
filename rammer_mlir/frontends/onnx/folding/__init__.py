"""Constant folding: evaluation of nodes with constant inputs; values that determine shapes."""

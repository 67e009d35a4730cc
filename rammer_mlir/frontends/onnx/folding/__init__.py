"""Folds constants: evaluates nodes with constant inputs, and values that determine shapes."""

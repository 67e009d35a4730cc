"""Folds constants: evaluates nodes with constant inputs, such as those that compute shapes."""

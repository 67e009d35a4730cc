"""Constant folding: values that determine shapes, and the sweep that evaluates nodes."""

"""Targets: each a ``Backend``, the one place that knows its name and its tools."""

"""Converts a module at the `program` stage to Python records, which all targets use."""

"""Converts a module at the `program` stage to data, for every target."""

"""Translates regions to primitives of a library such as oneDNN, without its enumeration values."""

"""Regions as primitives of a library: what integrations of several libraries have in common."""

"""Calls and links external code, which this compiler did not generate."""

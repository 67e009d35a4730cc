"""Calls and links foreign code, which this compiler did not generate."""

"""Runs foreign code: checks the packages that the code needs, and opens its stateful functions."""

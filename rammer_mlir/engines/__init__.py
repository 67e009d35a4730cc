"""Runs foreign code: checks the packages that it requires, and creates its functions' states."""

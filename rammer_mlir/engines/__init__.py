"""Runs external code: checks the packages that it requires, and holds its functions' states."""

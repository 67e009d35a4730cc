"""Runs of rPrograms, measured or predicted, as data and in forms that people look at."""

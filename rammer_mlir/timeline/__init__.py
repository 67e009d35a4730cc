"""Timelines of measured or predicted runs of rPrograms: the data, and its file formats."""

"""Represents measured or predicted runs of rPrograms as timelines, and writes them to files."""

"""Regions of the graph for foreign code generators: readings, patterns, merging, splitting."""

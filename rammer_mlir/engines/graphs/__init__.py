"""Engines of graphs in JSON."""

"""Measure which share of a model each code generator compiles, in what time, with what speedup."""

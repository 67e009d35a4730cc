"""Measure the share of a model that each code generator compiles, compile times and speedups."""

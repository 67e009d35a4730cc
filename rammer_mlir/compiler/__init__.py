"""Compiles models to executables; contains the options, stages, backends and cache."""

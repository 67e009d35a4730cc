"""Compilation of models to executables: options, stages, backends, cache."""

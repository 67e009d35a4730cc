"""Imports functions that ``jax.jit`` lowered, by passing their StableHLO to the MLIR front end."""

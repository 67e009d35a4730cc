"""Imports functions lowered by ``jax.jit``, as StableHLO for the MLIR front end."""

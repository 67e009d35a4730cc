"""JAX's front end: functions that ``jax.jit`` lowered, as StableHLO for the MLIR front end."""

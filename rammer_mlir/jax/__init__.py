"""JAX: functions compiled like ``jax.jit`` does, gradients among them, for nested structures."""

from __future__ import annotations

from rammer_mlir.jax.function import CompiledFunction, jit

__all__ = ["CompiledFunction", "jit"]

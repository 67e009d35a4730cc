"""JAX: functions compiled as by ``jax.jit``, including gradients, on nested structures."""

from __future__ import annotations

from rammer_mlir.jax.function import CompiledFunction, jit

__all__ = ["CompiledFunction", "jit"]

"""Compiles JAX functions, including gradients, by ``jit``, a replacement for ``jax.jit``.

Arguments and results may be nested structures of arrays.
"""

from __future__ import annotations

from rammer_mlir.jax.function import CompiledFunction, jit

__all__ = ["CompiledFunction", "jit"]

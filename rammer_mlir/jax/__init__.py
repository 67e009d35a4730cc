"""The JAX interface: ``jit`` compiles functions, including gradients, as ``jax.jit`` does.

Arguments and results may be nested structures of arrays.
"""

from __future__ import annotations

from rammer_mlir.jax.function import CompiledFunction, jit

__all__ = ["CompiledFunction", "jit"]

"""A module of one function, for tests of the pass manager."""

from __future__ import annotations

from rammer_mlir.bindings import ir

SOURCE = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def module() -> ir.Module:
    """Parse ``SOURCE`` in a new context, and return the module."""
    return ir.Module.parse(SOURCE, ir.Context())

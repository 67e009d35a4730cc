"""A module of one function, for tests of what passes are run by."""

from __future__ import annotations

from rammer_mlir.bindings import ir

SOURCE = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def module() -> ir.Module:
    """Return the source as a module in a context of its own."""
    return ir.Module.parse(SOURCE, ir.Context())

"""Decomposes the linalg operations softmax, pack and unpack into simpler operations."""

from __future__ import annotations

from rammer_mlir.bindings import ir, submodule
from rammer_mlir.passes.ir.traversal import nested_operations

_NAMES = frozenset({"linalg.softmax", "linalg.pack", "linalg.unpack"})

_SCRIPT = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %softmax = transform.structured.match ops{["linalg.softmax"]} in %root
      : (!transform.any_op) -> !transform.any_op
    %0 = transform.structured.decompose_interface %softmax
      : (!transform.any_op) -> !transform.any_op
    %packs = transform.structured.match ops{["linalg.pack"]} in %root
      : (!transform.any_op) -> !transform.op<"linalg.pack">
    transform.foreach %packs : !transform.op<"linalg.pack"> {
      ^bb0(%op: !transform.op<"linalg.pack">):
      %1, %2, %3 = transform.structured.lower_pack %op {lowerPadLikeWithInsertSlice = false}
        : (!transform.op<"linalg.pack">) -> (!transform.op<"tensor.pad">,
          !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
    }
    %unpacks = transform.structured.match ops{["linalg.unpack"]} in %root
      : (!transform.any_op) -> !transform.op<"linalg.unpack">
    transform.foreach %unpacks : !transform.op<"linalg.unpack"> {
      ^bb0(%op: !transform.op<"linalg.unpack">):
      %1, %2, %3, %4, %5 = transform.structured.lower_unpack %op
        {lowerUnpadLikeWithExtractSlice = false}
        : (!transform.op<"linalg.unpack">) -> (!transform.op<"tensor.empty">,
          !transform.op<"linalg.transpose">, !transform.op<"tensor.collapse_shape">,
          !transform.op<"tensor.extract_slice">, !transform.op<"linalg.copy">)
    }
    transform.yield
  }
}
"""
"""Transform script that decomposes softmax, pack and unpack.

MLIR offers these decompositions in its transform dialect only.
"""


def decompose_aggregates(module: ir.Module) -> None:
    """Replace ``linalg`` softmax, pack and unpack by loop nests, reshapes and transpositions.

    Raises:
        MLIRError: if the tile sizes of a pack or unpack are not constants.
    """
    if not any(op.name in _NAMES for op in nested_operations(module.operation)):
        return
    script = ir.Module.parse(_SCRIPT)
    interpreter = submodule("dialects.transform.interpreter")
    interpreter.apply_named_sequence(module.operation, script.body.operations[0], script)

"""Removes ``cf.assert``: assumes that its condition holds, and clamps indices into bounds.

torch-mlir asserts that the indices of embeddings, gathers and losses are within bounds. Compiled
programs cannot fail in the middle of a run, so conditions are not tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import FindingsError, OperationError
from rammer_mlir.passes.ir.structured import Structured
from rammer_mlir.passes.ir.traversal import constant_integer, operations_named
from rammer_mlir.passes.legalization.elementwise import clamped
from rammer_mlir.support.log import LOGGER

_FIRST_INDEX = {"tensor.extract": 1, "tensor.insert": 2}
"""The number of operands before the indices, by operation that accesses an element."""


def assume_assertions(module: ir.Module) -> None:
    """Remove each ``cf.assert``; if there was one, clamp the indices of all element accesses.

    The accesses are every ``tensor.extract`` and ``tensor.insert`` of the module, because a loop
    nest may use an index that an assertion in another loop nest tests. After clamping, an index out
    of bounds accesses the first or the last element. A module without assertions remains unchanged.
    Shapes must be static.

    Raises:
        FindingsError: if tensors without elements are accessed; the error lists these accesses.
    """
    found = list(operations_named(module.operation, "cf.assert"))
    if not found:
        return
    for op in found:
        op.erase()
    _clamp_all(list(operations_named(module.operation, *_FIRST_INDEX)))
    LOGGER.info("assertions: %d of cf.assert are assumed to hold", len(found))


def _clamp_all(accesses: Sequence[ir.Operation]) -> None:
    impossible = [
        OperationError(
            op,
            f"expected a tensor with elements, found shape {list(_shape(op))}, of which no "
            "index is within bounds; give it elements",
        )
        for op in accesses
        if 0 in _shape(op) and 0 not in _extents(op)
    ]
    if impossible:
        raise FindingsError(impossible)
    for op in accesses:
        with ir.InsertionPoint(op), op.location:
            _clamp(op)


def _shape(op: ir.Operation) -> Sequence[int]:
    """Return the shape of the tensor that ``op``, an extract or insert, accesses."""
    return ir.RankedTensorType(op.operands[_FIRST_INDEX[op.name] - 1].type).shape


def _clamp(op: ir.Operation) -> None:
    first = _FIRST_INDEX[op.name]
    for dimension, size in enumerate(_shape(op)):
        given = op.operands[first + dimension]
        if size > 0 and not _is_below(given, size):
            op.operands[first + dimension] = clamped(given, size - 1)


def _extents(op: ir.Operation) -> list[int]:
    """Return the trip counts of the loops of the innermost ``linalg.generic`` that contains ``op``.

    The list is empty outside of a ``linalg.generic``.
    """
    current = op.parent
    while current is not None and current.operation.name != "linalg.generic":
        current = current.operation.parent
    return [] if current is None else Structured(current.opview).extents


def _is_below(value: ir.Value, size: int) -> bool:
    """Whether an index is provably in [0, ``size``).

    The index must be a constant, or a ``linalg.index`` of a loop with at most ``size`` iterations.
    """
    owner = value.owner
    number = constant_integer(value)
    if number is not None:
        return 0 <= number < size
    if isinstance(owner, ir.Block) or owner.name != "linalg.index":
        return False
    extent = _extents(owner.operation)[ir.IntegerAttr(owner.attributes["dim"]).value]
    return 0 <= extent <= size

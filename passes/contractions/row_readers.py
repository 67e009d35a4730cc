"""Finds the slices that read a matrix, if each reads the same number of consecutive rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import shape_of


@dataclass(frozen=True)
class RowReaders:
    """The slices that read a matrix, if each reads ``rows`` consecutive rows.

    The matrix consists of ``num_steps`` *steps* of ``rows`` rows each, for example the time steps
    of a recurrent layer; a slice reads one step.

    Attributes:
        view: the ``tensor.expand_shape`` of the matrix that the slices read, with the steps as its
            first dimension; None if the slices read the matrix itself.
        slices: the ``tensor.extract_slice`` operations.
        steps: for each slice, the index of the step that it reads, from 0.
        num_steps: the number of steps in the matrix.
        rows: the number of rows of each step.
    """

    view: ir.Operation | None
    slices: tuple[ir.Operation, ...]
    steps: tuple[int, ...]
    num_steps: int
    rows: int


def find_row_readers(matrix: ir.Value) -> RowReaders | None:
    """Return the slices that read a matrix, directly or through one ``tensor.expand_shape``.

    Each slice has to read exactly one index of the first dimension of its operand. Return None if
    the matrix has another reader, or no reader.
    """
    users = _users(matrix)
    view = users[0] if len(users) == 1 and users[0].name == "tensor.expand_shape" else None
    source = matrix if view is None else view.results[0]
    slices = _users(source)
    steps = [_step(user) for user in slices]
    known = [step for step in steps if step is not None]
    num_steps = shape_of(source)[0]
    if not slices or len(known) < len(steps):
        return None
    return RowReaders(
        view, tuple(slices), tuple(known), num_steps, shape_of(matrix)[0] // num_steps
    )


def _users(value: ir.Value) -> Sequence[ir.Operation]:
    return list(dict.fromkeys(use.owner.operation for use in value.uses))


def _step(user: ir.Operation) -> int | None:
    """Return the only index of the first dimension that the slice ``user`` reads.

    Return None if the operation is no static slice or reads several indices.
    """
    if user.name != "tensor.extract_slice" or len(user.operands) > 1:
        return None
    offsets = list(ir.DenseI64ArrayAttr(user.attributes["static_offsets"]))
    sizes = list(ir.DenseI64ArrayAttr(user.attributes["static_sizes"]))
    return offsets[0] if sizes[0] == 1 else None

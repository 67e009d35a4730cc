"""Who reads a matrix step by step: slices of some rows each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import shape_of


@dataclass(frozen=True)
class RowReaders:
    """The slices that read a matrix, each one step: some rows, all steps equally many.

    Attributes:
        view: None, or the ``tensor.expand_shape`` that the slices are of; steps are its first
            dimension.
        slices: ``tensor.extract_slice`` operations.
        steps: the step that each of them reads.
        num_steps: steps that the matrix consists of.
        rows: of each step.
    """

    view: ir.Operation | None
    slices: tuple[ir.Operation, ...]
    steps: tuple[int, ...]
    num_steps: int
    rows: int


def find_row_readers(matrix: ir.Value) -> RowReaders | None:
    """Return a matrix's readers, None if one of them reads more than a step."""
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
    """Return the one index of the first dimension that a slice takes, None if it is not one."""
    if user.name != "tensor.extract_slice" or len(user.operands) > 1:
        return None
    offsets = list(ir.DenseI64ArrayAttr(user.attributes["static_offsets"]))
    sizes = list(ir.DenseI64ArrayAttr(user.attributes["static_sizes"]))
    return offsets[0] if sizes[0] == 1 else None

"""Recognizes known tensor operations, such as convolutions, in the IR of the `linalg` stage.

A recognized operation is called a reading. It is derived from loops, indexing maps and bodies, not
from names, so that it does not depend on the producer of the IR. IR operations that are not
recognized match no pattern of a code generator.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured, is_generic
from rammer_mlir.passes.regions.compound_readings import read_average, read_grouped, read_softmax
from rammer_mlir.passes.regions.contraction_readings import read_contraction
from rammer_mlir.passes.regions.elementwise import read_elementwise, read_fill
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.reductions import read_reduction
from rammer_mlir.passes.regions.views import read_view
from rammer_mlir.passes.regions.weights import Weights


def read(op: ir.OpView, weights: Weights | None = None) -> Reading | None:
    """Return the tensor operation, such as a convolution, whose last IR operation is ``op``.

    The returned reading may include preceding IR operations whose results are not used elsewhere,
    such as the padding before a convolution. Return None if ``op`` is not recognized.

    Args:
        op: an operation in a block of static tensors.
        weights: the entry function's weights, which count as constants; none by default.
    """
    known = {} if weights is None else weights
    if not _is_static(op):
        return None
    if not is_generic(op):
        return read_grouped(op, known) or read_view(op, known) or read_fill(op, known)
    generic = Structured(op)
    for reader in (read_average, read_softmax, read_contraction, read_reduction):
        reading = reader(generic, known)
        if reading is not None:
            return reading
    return read_fill(op, known) or read_elementwise(generic, known)


def read_all(operations: Iterable[ir.OpView], weights: Weights | None = None) -> list[Reading]:
    """Return the tensor operations that are recognized in a block, as readings.

    Readings are in the order of their last IR operations. No two readings share an IR operation.
    """
    given = list(operations)
    free: set[object] = {op.operation for op in given}
    found: list[Reading] = []
    for op in reversed(given):
        reading = _remembered(op, weights) if op.operation in free else None
        if reading is not None and free.issuperset(reading.operations):
            free.difference_update(reading.operations)
            found.append(reading)
    return found[::-1]


_REMEMBERED: ContextVar[dict[tuple[ir.Value, bool], Reading | None] | None] = ContextVar(
    "remembered readings", default=None
)


@contextmanager
def remembered_readings() -> Generator[None]:
    """Return a context manager inside which `read_all` memoizes readings (recognized operations).

    `forget_readings` discards the memoized readings.
    """
    token = _REMEMBERED.set({})
    try:
        yield
    finally:
        _REMEMBERED.reset(token)


def forget_readings() -> None:
    """Discard memoized readings (recognized operations).

    Call this function after every change to operations; a change of attributes alone needs no call.
    """
    known = _REMEMBERED.get()
    if known is not None:
        known.clear()


def _remembered(op: ir.OpView, weights: Weights | None) -> Reading | None:
    known = _REMEMBERED.get()
    if known is None or not op.operation.results:
        return read(op, weights)
    # Not the operation: its hash depends on its attributes, which passes change.
    key = op.operation.results[0], bool(weights)
    if key not in known:
        known[key] = read(op, weights)
    return known[key]


def _is_static(op: ir.OpView) -> bool:
    types = (value.type for value in (*op.operation.operands, *op.operation.results))
    return len(op.operation.results) == 1 and all(
        kind.has_static_shape for kind in types if isinstance(kind, ir.RankedTensorType)
    )

"""Propagates a layout change along channels through a network.

A *change* of a value replaces the layout of one dimension, the channels: the channels are stored in
blocks (``channels/layout.py``), or padding channels are appended (``channels/padding.py``). Changes
start at the results of contractions with constant weights. An operation that reads changed values
is rewritten if the rules of the change allow this; otherwise a copy converts the changed values
back to their plain layout. A copy may also *convert* a plain value to the changed layout, if the
value is concatenated with changed values or if its reader becomes faster.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, Protocol, TypeVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.byte_product import multiplies_bytes
from rammer_mlir.passes.fusion.grouping import CONCAT
from rammer_mlir.passes.ir.boxes import loops_in
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim, shape_of


class Change(Protocol):
    """The layout change of a value: blocking or padding of a dimension."""

    @property
    def dim(self) -> int:
        """The index of the value's dimension that is blocked or padded."""
        ...


C = TypeVar("C", bound=Change)


@dataclass(frozen=True)
class Part(Generic[C]):
    """The rewrite of an operation whose operands get a new layout: blocks or padding channels.

    Attributes:
        loops: for a ``linalg.generic``, the indices of the loops that are split into blocks or
            extended over padding channels; empty for other operations.
        results: the new layout of each changed result, by the result's index.
        pays: whether the operation is faster with the new layouts.
    """

    loops: frozenset[int]
    results: Mapping[int, C]
    pays: bool = False


@dataclass(frozen=True)
class Changes(Generic[C]):
    """The new layouts of values, and the operations to rewrite for them.

    If no rewritten operation computes a value with a new layout, a copy converts the value.

    Attributes:
        values: the change (blocking or padding of a dimension) of each value that changes.
        parts: the rewrite of each operation that reads or computes such values.
    """

    values: Mapping[ir.Value, C]
    parts: Mapping[ir.Operation, Part[C]]


class Rules(Protocol[C]):
    """The propagation rules of one kind of layout change, blocking or padding."""

    def generic_part(
        self, op: Structured, values: Mapping[ir.Value, C], refused: Container[ir.Value]
    ) -> Part[C] | None:
        """Return how to rewrite a ``linalg.generic`` for operands with new layouts.

        ``values`` maps each changed value to its change of layout; results in ``refused`` have to
        keep their layout. Return None if the generic cannot read the changed operands.
        """
        ...

    def view(self, op: ir.OpView, operands: Sequence[C]) -> C | None:
        """Return how the layout of a result of a reshape, slice, pad or concatenation changes.

        ``operands`` lists the change of layout of each operand. Return None if the operation cannot
        read changed operands.
        """
        ...

    def layout_op_rewrite(
        self, op: ir.OpView, values: Mapping[ir.Value, C], refused: Container[ir.Value]
    ) -> Part[C] | None:
        """Return how to rewrite an operation such as ``linalg.pack``, which only changes a layout.

        ``values`` maps each changed value to its change of layout; results in ``refused`` have to
        keep their layout. Return None for any other operation.
        """
        ...

    def conversion(self, op: ir.OpView, value: ir.Value, values: Mapping[ir.Value, C]) -> C | None:
        """Return the change of layout that a copy can apply to an operand of a concatenation.

        ``op`` is the concatenation, ``value`` the operand, and ``values`` contains the changes of
        the other operands. Return None if ``value`` cannot be converted.
        """
        ...

    def gainful(self, op: Structured) -> tuple[ir.Value, C] | None:
        """Return an operand of a generic that is worth copying into another layout, and the change.

        The copy saves more time in the generic than the copy costs. Return None if there is no such
        operand.
        """
        ...

    def is_free(self, value: ir.Value, change: C) -> bool:
        """Whether the change costs nothing, so that no operation has to benefit from it."""
        ...


def spread(operations: Sequence[ir.OpView], rules: Rules[C]) -> Changes[C]:
    """Return which values of an MLIR block change their layout, and which operations to rewrite.

    ``rules`` are the propagation rules of the change: blocking or padding of channels.
    ``operations`` are the operations of the block in order. A change of layout that costs something
    is left out if no operation benefits from it.
    """
    # Facts about the generics are read several times, while the operations stay as they are.
    facts = [Structured(op) if is_generic(op) else None for op in operations]
    converted, changes = _conversions(operations, facts, rules)
    refused: set[ir.Value] = set()
    # Refusing values may make others useless: repeat until a fixpoint.
    while useless := _useless(operations, rules, changes):
        refused |= useless
        changes = _spread(operations, facts, rules, converted, refused)
    return changes


def _conversions(
    operations: Sequence[ir.OpView], facts: Sequence[Structured | None], rules: Rules[C]
) -> tuple[dict[ir.Value, C], Changes[C]]:
    """Return the new layouts to which copies convert values, and all new layouts in the block.

    The first result maps each value that is copied to its change of layout; the second result
    includes these changes. A value whose producer keeps the old layout is copied if a concatenation
    can then read and compute the new layout, or if a generic becomes faster. ``facts`` lists, for
    each of ``operations``, its ``Structured`` if the operation is a generic, else None.
    """
    concatenations = [op for op in operations if op.operation.name == CONCAT]
    changes = _spread(operations, facts, rules, {}, frozenset())
    gains = [rules.gainful(generic) for generic in facts if generic is not None]
    converted = {gain[0]: gain[1] for gain in gains if gain and gain[0] not in changes.values}
    if converted:
        changes = _spread(operations, facts, rules, converted, frozenset())
    while True:
        before = len(converted)
        for op in concatenations:
            converted |= _converted_operands(op, rules, changes.values)
        if len(converted) == before:
            return converted, changes
        changes = _spread(operations, facts, rules, converted, frozenset())


def _converted_operands(
    op: ir.OpView, rules: Rules[C], values: Mapping[ir.Value, C]
) -> dict[ir.Value, C]:
    """Return the plain operands of a concatenation that copies convert, each with its new layout.

    An operand is plain if it is not in ``values``, which maps the other operands to their changes
    of layout. All plain operands are returned, or none: the result is empty if the plain operands
    have more than half of the concatenation's elements, or if a copy cannot convert one of them.
    """
    plain = [value for value in op.operation.operands if value not in values]
    elements = [prod(shape_of(value)) for value in plain]
    # Copying most of the operands would cost more than reading the result in its plain layout.
    if 2 * sum(elements) > prod(shape_of(op.operation.results[0])):
        return {}
    found = {value: rules.conversion(op, value, values) for value in plain}
    changes = {value: change for value, change in found.items() if change is not None}
    return changes if len(changes) == len(found) else {}


def _spread(
    operations: Sequence[ir.OpView],
    facts: Sequence[Structured | None],
    rules: Rules[C],
    converted: Mapping[ir.Value, C],
    refused: Container[ir.Value],
) -> Changes[C]:
    given = {value: change for value, change in converted.items() if value not in refused}
    # Converted arguments are available at once, other converted values after their producers.
    values: dict[ir.Value, C] = {v: c for v, c in given.items() if isinstance(v.owner, ir.Block)}
    parts: dict[ir.Operation, Part[C]] = {}
    for op, generic in zip(operations, facts, strict=True):
        if generic is not None:
            part = rules.generic_part(generic, values, refused)
        else:
            part = rules.layout_op_rewrite(op, values, refused) or _view_part(
                op, rules, values, refused
            )
        if part is not None:
            parts[op.operation] = part
            for number, change in part.results.items():
                values[op.operation.results[number]] = change
        else:
            values |= {value: given[value] for value in op.operation.results if value in given}
    return Changes(values, parts)


def _view_part(
    op: ir.OpView, rules: Rules[C], values: Mapping[ir.Value, C], refused: Container[ir.Value]
) -> Part[C] | None:
    operands = list(op.operation.operands)
    if any(value not in values for value in operands):
        return None
    change = rules.view(op, [values[value] for value in operands])
    if change is None or op.operation.results[0] in refused:
        return None
    return Part(frozenset(), {0: change})


def _useless(
    operations: Sequence[ir.OpView], rules: Rules[C], changes: Changes[C]
) -> set[ir.Value]:
    """Return the values whose change of layout makes no operation faster and is not free.

    A change is useful if the operations that read the value, directly or through other changed
    values, include an operation that becomes faster.
    """
    pay: set[ir.Value] = set()
    for op in reversed(operations):
        part = changes.parts.get(op.operation)
        if part is None:
            continue
        if part.pays or any(op.operation.results[number] in pay for number in part.results):
            pay.update(value for value in op.operation.operands if value in changes.values)
    return {
        value
        for value, change in changes.values.items()
        if value not in pay and not rules.is_free(value, change)
    }


def changed_loops(
    op: Structured,
    values: Mapping[ir.Value, Change],
    weights: Container[ir.Value],
    suits: Callable[[int], bool],
    refused: Container[ir.Value],
) -> frozenset[int]:
    """Return the indices of a generic's loops over dimensions with a new layout.

    The new layout has blocks of channels or padding channels. The result is empty if the generic
    cannot read values in this layout.

    Args:
        op: the generic.
        values: the values with a new layout, and the change of each.
        weights: the constant weights.
        suits: whether a count of output channels allows the new layout. If it does, and ``op`` is a
            contraction with a constant weight, the loop over the output channels is returned too.
        refused: the results that have to keep their layout.
    """
    loops: set[int] = set()
    operands = op.op.operation.operands
    for number, value in enumerate(operands) if values else ():
        if value in values:
            loop = plain_dim(op.maps[number].results[values[value].dim])
            if loop is None:
                return frozenset()
            loops.add(loop)
    lane = _output_channels(op, weights, suits)
    if lane is not None and op.op.operation.results[0] not in refused:
        loops.add(lane)
    return frozenset(loops) if loops and _does_the_same_everywhere(op) else frozenset()


def _output_channels(
    op: Structured, weights: Container[ir.Value], suits: Callable[[int], bool]
) -> int | None:
    """Return the index of the loop over the output channels of a contraction with a weight.

    Return None

    - if the operation is no contraction of f32 or i8 elements with a weight,
    - if ``suits`` returns False for the count of output channels,
    - if the channels are the innermost dimension of the result.
    """
    if not op.is_contraction or op.num_outputs != 1:
        return None
    result, dims = op.op.operation.results[0], op.result_dims(0)
    if dims is None:
        return None
    is_f32 = isinstance(ir.RankedTensorType(result.type).element_type, ir.F32Type)
    if not is_f32 and not multiplies_bytes(op):
        return None
    for position, value in enumerate(op.inputs):
        exprs = list(op.maps[position].results)
        lane = plain_dim(exprs[-1]) if value in weights and exprs else None
        if lane is None or not op.parallel[lane] or not suits(op.extents[lane]):
            continue
        others = [m for n, m in enumerate(op.maps[: len(op.inputs)]) if n != position]
        read_elsewhere = any(lane in loops_in(expr) for map_ in others for expr in map_.results)
        if not read_elsewhere and trailing_elements(result, dims.index(lane)) > 1:
            return lane
    return None


def _does_the_same_everywhere(op: Structured) -> bool:
    """Whether a generic's body computes from its arguments and captured scalars only.

    Such a body contains no ``linalg.index`` and captures no tensors.
    """
    return not op.uses_index and not any(
        isinstance(value.type, ir.RankedTensorType) for value in op.captures
    )


def is_convertible(value: ir.Value, weights: Container[ir.Value]) -> bool:
    """Whether a copy may change the layout of a value.

    The value has to be a tensor of f32 or i8 that is no weight.
    """
    element = ir.RankedTensorType(value.type).element_type
    return value not in weights and str(element) in ("f32", "i8")


def trailing_elements(value: ir.Value, dim: int) -> int:
    """Return the product of the sizes of a tensor's dimensions after ``dim``.

    If the product is 1, blocking dimension ``dim`` does not move elements in memory.
    """
    return prod(shape_of(value)[dim + 1 :])


def slice_along(op: ir.OpView, dim: int) -> tuple[int, int, int] | None:
    """Return the offset, size and stride of a ``tensor.extract_slice`` along dimension ``dim``.

    Return None if the slice is rank-reducing.
    """
    operation = op.operation
    if len(shape_of(operation.results[0])) != len(shape_of(operation.operands[0])):
        return None
    offset, size, stride = (
        list(ir.DenseI64ArrayAttr(operation.attributes[f"static_{name}"]))[dim]
        for name in ("offsets", "sizes", "strides")
    )
    return offset, size, stride

"""Selects activations whose channels are padded to whole blocks, and how operations adapt.

If the channels of a value are not a multiple of a block, the value cannot be stored in blocks
(``channels/layout.py``). Such a value is *padded*: padding channels follow its own channels.
Weights padded with zeros compute the padding channels, and the weights of the next convolution
multiply them by zero. The contents of padding channels are known at compile time
(``channels/padding_values.py``); they have to be finite, because infinity times zero is NaN.

A concatenation of padded values has several *runs* of channels, each followed by its padding.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rammer_mlir.bindings import ir
from rammer_mlir.passes.channels.images import find_image
from rammer_mlir.passes.channels.padding_values import (
    ZEROS,
    Fills,
    held_fills,
    result_fills,
    sums_products,
)
from rammer_mlir.passes.channels.propagation import (
    Changes,
    Part,
    changed_loops,
    is_convertible,
    slice_along,
    spread,
)
from rammer_mlir.passes.contractions.byte_product import multiplies_bytes
from rammer_mlir.passes.fusion.grouping import CONCAT
from rammer_mlir.passes.ir.boxes import loops_in
from rammer_mlir.passes.ir.constant_pad import PAD, find_constant_pad
from rammer_mlir.passes.ir.fills import is_fresh
from rammer_mlir.passes.ir.packs import BLOCK
from rammer_mlir.passes.ir.structured import Structured, constant_value, plain_dim, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights

_ANY: Fills = frozenset((1.0,))
"""Placeholder for the padding contents of an input that a generic's body does not read."""

_MOST_GROWTH = 1.34
"""Maximum factor by which padding may multiply channels: 24 become 32, 12 become 16."""


_MOST_GROWTH_OF_BYTES = 2.0
"""Maximum growth of the channels of 8-bit contractions, which are much faster in blocks."""


@dataclass(frozen=True)
class Padded:
    """The padding of a value.

    Attributes:
        dim: the padded dimension.
        own: the count of channels in a run, without its padding channels.
        fills: the numbers that may occur in padding channels; an empty set stands for unknown
            integers.
        runs: the count of consecutive runs of ``own`` channels, each followed by its padding
            channels; above 1 for a concatenation of padded values.
    """

    dim: int
    own: int
    fills: Fills
    runs: int = 1

    @property
    def size(self) -> int:
        """The count of channels in all runs, including their padding channels."""
        return self.runs * rounded(self.own)


def rounded(channels: int) -> int:
    """Return the least multiple of the block size, 16, that is at least ``channels``."""
    return -(-channels // BLOCK) * BLOCK


def choose_paddings(operations: Sequence[ir.OpView], weights: DerivedWeights) -> Changes[Padded]:
    """Return the values that get padding channels, and the operations to rewrite for them.

    A value is padded only if a later operation reduces over its padding channels.

    Args:
        operations: the operations of an MLIR block in order.
        weights: the values known at compile time.
    """
    return spread(operations, _Padding(weights))


def runs_along(
    op: Structured, loops: Container[int], values: Mapping[ir.Value, Padded]
) -> dict[int, int] | None:
    """Return the count of runs (``Padded.runs``) along each padded loop, by the loop's index.

    Return None if operands have different counts of runs along a loop. ``loops`` contains the
    indices of the loops over padded dimensions, ``values`` maps each padded value to its padding.
    """
    runs: dict[int, int] = {}
    for value, map_ in zip(op.op.operation.operands, op.maps, strict=True):
        padded = values.get(value)
        loop = None if padded is None else plain_dim(map_.results[padded.dim])
        if padded is None or loop is None or loop not in loops:
            continue
        if runs.setdefault(loop, padded.runs) != padded.runs:
            return None
    return {loop: runs.get(loop, 1) for loop in range(len(op.parallel)) if loop in loops}


@dataclass(frozen=True)
class _Padding:
    """The propagation rules of padding channels.

    If a loop of a ``linalg.generic`` indexes a padded dimension, the loop also runs over the
    padding channels, and the results that it indexes are padded. ``weights`` are the module's
    weights.
    """

    weights: DerivedWeights

    def generic_part(
        self, op: Structured, values: Mapping[ir.Value, Padded], refused: Container[ir.Value]
    ) -> Part[Padded] | None:
        """Return which loops of a ``linalg.generic`` run over padding, and the padded results.

        Return None if the operation cannot compute on padded values, for example because a result
        that would be padded is in ``refused``. ``values`` maps each padded value to its padding.
        """
        loops = changed_loops(op, values, self.weights, partial(_worth_padding, op), refused)
        runs = runs_along(op, loops, values)
        if not loops or runs is None or not self._can_grow(op, loops, values):
            return None
        grown = {
            number: (dim, loop)
            for number in range(op.num_outputs)
            for dim, expr in enumerate(op.maps[len(op.inputs) + number].results)
            if (loop := plain_dim(expr)) is not None and loop in loops
        }
        fills = result_fills(op, self._input_fills(op, loops, values)) if grown else []
        if fills is None or any(op.op.operation.results[number] in refused for number in grown):
            return None
        results = {
            number: Padded(dim, op.extents[loop] // runs[loop], fills[number], runs[loop])
            for number, (dim, loop) in grown.items()
        }
        reduces = not all(op.parallel[loop] for loop in loops)
        return Part(loops, results, pays=reduces)

    def layout_op_rewrite(
        self, op: ir.OpView, values: Mapping[ir.Value, Padded], refused: Container[ir.Value]
    ) -> None:
        """Return None, because the IR has no operation that itself adds padding channels."""

    def view(self, op: ir.OpView, operands: Sequence[Padded]) -> Padded | None:
        """Return the padding of the result of a slice, pad or concatenation of padded operands.

        ``operands`` has the padding of each operand. Return None if the result cannot be padded.
        """
        rule = _VIEWS.get(op.operation.name)
        return None if rule is None else rule(op, operands)

    def conversion(
        self, op: ir.OpView, value: ir.Value, values: Mapping[ir.Value, Padded]
    ) -> Padded | None:
        """Return the padding with zeros that a plain operand of a concatenation can get.

        ``value`` is the plain operand; its channels become a run. Return None if the count of its
        channels differs from the length of the padded operands' runs, if these runs differ in
        length, or if ``value`` cannot be padded by a copy.
        """
        lengths = {(c.dim, c.own) for o in op.operation.operands if (c := values.get(o))}
        if len(lengths) != 1 or not is_convertible(value, self.weights):
            return None
        ((dim, own),) = lengths
        return Padded(dim, own, ZEROS) if shape_of(value)[dim] == own else None

    def gainful(self, op: Structured) -> tuple[ir.Value, Padded] | None:
        """Return the image of an 8-bit convolution that should be padded, and its padding.

        The padded image can be stored in blocks of channels, which makes the convolution faster.
        Return None if ``op`` is not an 8-bit convolution or is depthwise, if the image's channels
        are already a multiple of the block size, 16, or if padding more than doubles the channels.
        """
        image = find_image(op, self.weights) if multiplies_bytes(op) else None
        if image is None or image.is_depthwise or not _worth_padding(op, image.channels):
            return None
        return image.value, Padded(1, image.channels, frozenset())

    def is_free(self, value: ir.Value, change: Padded) -> bool:
        """Return False for every value and change: padding always costs memory and arithmetic."""
        return False

    def _can_grow(
        self, op: Structured, loops: frozenset[int], values: Mapping[ir.Value, Padded]
    ) -> bool:
        """Whether ``loops`` of a ``linalg.generic`` may run over padding channels too.

        Every operand that the loops index has to be a padded value, a weight, or an initial tensor
        that is empty or a fill. A reduction over padding channels has to multiply them by a weight.
        """
        reductions = {loop for loop in loops if not op.parallel[loop]}
        if reductions and not self._multiplies_by_zeros(op, reductions):
            return False
        for position, (map_, value) in enumerate(
            zip(op.maps, op.op.operation.operands, strict=True)
        ):
            moving = [expr for expr in map_.results if not loops.isdisjoint(loops_in(expr))]
            is_output = position >= len(op.inputs)
            if value in values or (is_output and is_fresh(value)):
                fits = len(moving) <= 1
            else:
                fits = not moving or (value in self.weights and not is_output)
            if not fits or any(plain_dim(expr) is None for expr in moving):
                return False
        return True

    def _multiplies_by_zeros(self, op: Structured, reductions: set[int]) -> bool:
        """Whether a ``linalg.generic`` multiplies the padding channels that it reduces by zeros.

        ``reductions`` are the indices of the reduction loops that run over padding channels. The
        operation has to sum products in which one factor is a weight, and all these loops have to
        index the weight. The weight is then padded with zeros.
        """
        if not sums_products(op) or op.num_outputs != 1 or op.captures:
            return False
        return any(
            value in self.weights and reductions <= {plain_dim(expr) for expr in map_.results}
            for value, map_ in zip(op.inputs, op.maps, strict=False)
        )

    def _input_fills(
        self, op: Structured, loops: frozenset[int], values: Mapping[ir.Value, Padded]
    ) -> list[Fills]:
        """Return, for each input, the set of numbers that ``op`` reads in padding channels.

        ``loops`` are the padded loops. The set is empty if the numbers are unknown.
        """
        inputs: list[Fills] = []
        for position, (value, map_) in enumerate(zip(op.inputs, op.maps, strict=False)):
            if not op.reads_input(position):
                inputs.append(_ANY)
            elif value in values:
                inputs.append(values[value].fills)
            elif value in self.weights:
                moves = any(plain_dim(expr) in loops for expr in map_.results)
                inputs.append(ZEROS if moves else held_fills(self.weights[value]))
            else:
                known = constant_value(value)
                inputs.append(frozenset() if known is None else frozenset((known,)))
        return inputs


def _worth_padding(op: Structured, channels: int) -> bool:
    most = _MOST_GROWTH_OF_BYTES if multiplies_bytes(op) else _MOST_GROWTH
    return channels % BLOCK != 0 and rounded(channels) <= most * channels


def _pad(op: ir.OpView, operands: Sequence[Padded]) -> Padded | None:
    """Return the padding channels of the result of a ``tensor.pad``.

    The contents of these channels include the number that the ``tensor.pad`` inserts. Return None
    if the ``tensor.pad`` pads the channels themselves, or inserts a float that is not constant.
    """
    pad, (source,) = find_constant_pad(op), operands
    if pad is None or pad.low[source.dim] or pad.high[source.dim]:
        return None
    if isinstance(pad.border.type, ir.IntegerType):
        return replace(source, fills=frozenset())
    border = constant_value(pad.border)
    return None if border is None else replace(source, fills=source.fills | {border})


def _slice(op: ir.OpView, operands: Sequence[Padded]) -> Padded | None:
    (source,) = operands
    return source if slice_along(op, source.dim) == (0, source.runs * source.own, 1) else None


def _concat(op: ir.OpView, operands: Sequence[Padded]) -> Padded | None:
    """Return the padding of a concatenation's result; None if the result cannot be padded.

    All operands need the same padded dimension and the same count of channels in a run, because a
    ``Padded`` has a single count; otherwise return None. There are two cases:

    - The concatenation is along the padded dimension: the result has the runs of all operands. But
      return None if only the concatenation reads the operands. Then the operands stay without
      padding, and the result can be padded as a single run.
    - The concatenation is along another dimension: the result has the runs of each operand. Return
      None if the operands differ in their counts of runs.
    """
    first, dim = operands[0], ir.IntegerAttr(op.operation.attributes["dim"]).value
    if any((source.dim, source.own) != (first.dim, first.own) for source in operands):
        return None
    fills = frozenset[float]().union(*(source.fills for source in operands))
    if not all(source.fills for source in operands):
        fills = frozenset()
    if dim != first.dim:
        same = all(source.runs == first.runs for source in operands)
        return replace(first, fills=fills) if same else None
    if not any(_is_read_beside(value, op.operation) for value in op.operation.operands):
        return None  # no other reader: pad the whole result instead, without runs
    return replace(first, fills=fills, runs=sum(source.runs for source in operands))


def _is_read_beside(value: ir.Value, reader: ir.Operation) -> bool:
    return any(use.owner.operation != reader for use in value.uses)


_VIEWS: Mapping[str, Callable[[ir.OpView, Sequence[Padded]], Padded | None]] = {
    PAD: _pad,
    "tensor.extract_slice": _slice,
    CONCAT: _concat,
}

"""Which activations get further channels, so that they divide into blocks, and how operations do.

A value whose channels are no multiple of a block cannot be stored in blocks (``channel_layout``).
It is *padded*: further channels stand behind its own, which weights padded with zeros compute, and
which the weights of the next convolution multiply by zero. What is in them is known when the
network is compiled, since it depends on constants alone; it has to be finite, because zero times
infinity is no zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from rammer_mlir.bindings import ir
from rammer_mlir.passes.body_values import evaluate_body
from rammer_mlir.passes.boxes import loops_in
from rammer_mlir.passes.channel_layout import BLOCK, trailing_elements
from rammer_mlir.passes.constant_pad import PAD, find_constant_pad
from rammer_mlir.passes.contraction import multiplies_and_adds
from rammer_mlir.passes.fills import filling, is_fresh
from rammer_mlir.passes.structured import (
    Structured,
    body_operations,
    constant_value,
    is_generic,
    plain_dim,
    shape_of,
)

_MOST_GROWTH = 1.34
"""How many times more channels are not too many: 24 become 32, 12 become 16."""

_MOST_FILLS = 4
"""Different numbers that further channels of one value may hold."""

_LARGEST = 1e30
"""Numbers up to here stay finite in f32 when a few of them are multiplied by weights and added."""

Fills = frozenset[float]
"""The numbers that may stand in further channels."""


@dataclass(frozen=True)
class Padded:
    """A padded value: the dimension that grows, from ``own`` channels on, and what is in there."""

    dim: int
    own: int
    fills: Fills

    @property
    def size(self) -> int:
        """Channels with those added."""
        return rounded(self.own)


@dataclass(frozen=True)
class PaddedPart:
    """How one operation goes along: a generic's loops that grow, and its results that do."""

    loops: frozenset[int]
    results: Mapping[int, Padded]


@dataclass(frozen=True)
class Paddings:
    """Padded values, and how operations take part."""

    values: Mapping[ir.Value, Padded]
    parts: Mapping[ir.Operation, PaddedPart]


def rounded(channels: int) -> int:
    """Return the next multiple of a block."""
    return -(-channels // BLOCK) * BLOCK


def choose_paddings(operations: Sequence[ir.OpView], weights: Container[ir.Value]) -> Paddings:
    """Return the paddings of a block's values; ``weights`` are those known at compile time.

    No value is padded unless something behind it is reduced over its further channels.
    """
    refused: set[ir.Value] = set()
    while True:
        paddings = _spread(operations, weights, refused)
        useless = _useless(operations, paddings)
        if not useless:
            return paddings
        refused |= useless


def _spread(
    operations: Sequence[ir.OpView], weights: Container[ir.Value], refused: Container[ir.Value]
) -> Paddings:
    values: dict[ir.Value, Padded] = {}
    parts: dict[ir.Operation, PaddedPart] = {}
    for op in operations:
        if is_generic(op):
            part = _generic_part(Structured(op), values, weights, refused)
        else:
            part = _view_part(op, values)
        if part is None or any(op.operation.results[n] in refused for n in part.results):
            continue
        parts[op.operation] = part
        for number, padded in part.results.items():
            values[op.operation.results[number]] = padded
    return Paddings(values, parts)


def _useless(operations: Sequence[ir.OpView], paddings: Paddings) -> set[ir.Value]:
    """Return the padded values whose further channels no contraction reads, however far behind."""
    pays: set[ir.Value] = set()
    for op in reversed(operations):
        part = paddings.parts.get(op.operation)
        if part is None:
            continue
        results = [op.operation.results[number] for number in part.results]
        reduces = is_generic(op) and any(not Structured(op).parallel[loop] for loop in part.loops)
        if reduces or any(value in pays for value in results):
            pays.update(value for value in op.operation.operands if value in paddings.values)
    return {value for value in paddings.values if value not in pays}


def _generic_part(
    op: Structured,
    values: Mapping[ir.Value, Padded],
    weights: Container[ir.Value],
    refused: Container[ir.Value],
) -> PaddedPart | None:
    loops: set[int] = set()
    for map_, value in zip(op.maps, op.op.operation.operands, strict=True):
        if value in values:
            loop = plain_dim(map_.results[values[value].dim])
            if loop is None:
                return None
            loops.add(loop)
    lane = _output_channels(op, weights)
    if lane is not None and op.op.operation.results[0] not in refused:
        loops.add(lane)
    if not loops or not _can_grow(op, loops, values, weights):
        return None
    grown = {
        number: dim
        for number in range(op.num_outputs)
        for dim, expr in enumerate(op.maps[len(op.inputs) + number].results)
        if plain_dim(expr) in loops
    }
    fills = _result_fills(op, loops, values, weights) if grown else []
    if fills is None:
        return None
    results = {
        number: Padded(dim, shape_of(op.op.operation.results[number])[dim], fills[number])
        for number, dim in grown.items()
    }
    return PaddedPart(frozenset(loops), results)


def _output_channels(op: Structured, weights: Container[ir.Value]) -> int | None:
    """Return the loop over the output channels of a convolution, if they are worth padding."""
    result = op.op.operation.results[0]
    dims = op.result_dims(0)
    if not op.is_contraction or op.num_outputs != 1 or dims is None:
        return None
    if not isinstance(ir.RankedTensorType(result.type).element_type, ir.F32Type):
        return None
    for position, value in enumerate(op.inputs):
        exprs = list(op.maps[position].results)
        lane = plain_dim(exprs[-1]) if value in weights and exprs else None
        if lane is None or not op.parallel[lane] or not _worth_padding(op.extents[lane]):
            continue
        others = [m for n, m in enumerate(op.maps[: len(op.inputs)]) if n != position]
        read_elsewhere = any(lane in loops_in(expr) for map_ in others for expr in map_.results)
        if not read_elsewhere and trailing_elements(result, dims.index(lane)) > 1:
            return lane
    return None


def _worth_padding(channels: int) -> bool:
    return channels % BLOCK != 0 and rounded(channels) <= _MOST_GROWTH * channels


def _can_grow(
    op: Structured,
    loops: set[int],
    values: Mapping[ir.Value, Padded],
    weights: Container[ir.Value],
) -> bool:
    """Whether every operand that moves along the loops is padded, a weight, or a fresh result."""
    if any(isinstance(value.type, ir.RankedTensorType) for value in op.captures):
        return False
    if any(inner.operation.name == "linalg.index" for inner in body_operations(op.op)):
        return False
    if any(not op.parallel[loop] for loop in loops) and not _multiplies_by_zeros(
        op, loops, weights
    ):
        return False
    for position, (map_, value) in enumerate(zip(op.maps, op.op.operation.operands, strict=True)):
        moving = [expr for expr in map_.results if not loops.isdisjoint(loops_in(expr))]
        if not moving:
            continue
        if any(plain_dim(expr) is None for expr in moving):
            return False
        if value in values:
            if len(moving) > 1:
                return False
        elif position >= len(op.inputs):
            if len(moving) > 1 or not is_fresh(value):
                return False
        elif value not in weights:
            return False
    return True


def _multiplies_by_zeros(op: Structured, loops: set[int], weights: Container[ir.Value]) -> bool:
    """Whether a weight moves along all reductions that grow, and everything is multiplied by it."""
    if not multiplies_and_adds(op.op) or op.num_outputs != 1 or op.captures:
        return False
    reductions = {loop for loop in loops if not op.parallel[loop]}
    return any(
        value in weights and reductions <= {plain_dim(expr) for expr in map_.results}
        for value, map_ in zip(op.inputs, op.maps, strict=False)
    )


def _result_fills(
    op: Structured,
    loops: set[int],
    values: Mapping[ir.Value, Padded],
    weights: Container[ir.Value],
) -> list[Fills] | None:
    """Return what the results hold in further channels, None if that is not known or not finite."""
    inputs: list[Fills] = []
    for value, map_ in zip(op.inputs, op.maps, strict=False):
        if value in values:
            inputs.append(values[value].fills)
        elif value in weights and any(plain_dim(expr) in loops for expr in map_.results):
            inputs.append(frozenset((0.0,)))
        else:
            known = constant_value(value)
            inputs.append(frozenset() if known is None else frozenset((known,)))
    if _is_product_with_zeros(op, inputs):
        # Whatever the other factor is: it is an image or a weight, and those are finite.
        return [frozenset((0.0,))]
    if any(not fills for fills in inputs):
        return None
    return _reduced_fills(op, inputs)


def _is_product_with_zeros(op: Structured, inputs: Sequence[Fills]) -> bool:
    """Whether only zeros are added up: the weights of further output channels."""
    zero = frozenset((0.0,))
    return (
        multiplies_and_adds(op.op)
        and not op.captures
        and any(fills == zero for fills in inputs)
        and all(_initial_fills(op, number) == zero for number in range(op.num_outputs))
    )


def _initial_fills(op: Structured, number: int) -> Fills | None:
    """Return what a result is filled with before; any number where it is not read."""
    if not op.reads_output(number):
        return frozenset((0.0,))
    scalar = filling(op.outputs[number])
    known = None if scalar is None else constant_value(scalar)
    return None if known is None else frozenset((known,))


def _reduced_fills(op: Structured, inputs: Sequence[Fills]) -> list[Fills] | None:
    """Evaluate the body until nothing new comes out of it."""
    found: list[set[float]] = []
    for number in range(op.num_outputs):
        initial = _initial_fills(op, number)
        if initial is None:
            return None
        found.append(set(initial))
    results: list[set[float]] = [set() for _ in found]
    while True:
        before = [len(fills) for fills in results]
        for arguments in product(*inputs, *found):
            for number, value in enumerate(evaluate_body(op.op, arguments)):
                if value is None:
                    return None
                results[number].add(value)
        if any(len(fills) > _MOST_FILLS for fills in results):
            return None
        if [len(fills) for fills in results] == before:
            break
        if not op.is_elementwise:
            found = [old | new for old, new in zip(found, results, strict=True)]
    if not _all_finite(value for fills in results for value in fills):
        return None
    return [frozenset(fills) for fills in results]


def _all_finite(numbers: Iterable[float]) -> bool:
    return all(math.isfinite(number) and abs(number) <= _LARGEST for number in numbers)


def _view_part(op: ir.OpView, values: Mapping[ir.Value, Padded]) -> PaddedPart | None:
    rule = _VIEWS.get(op.operation.name)
    operands = list(op.operation.operands)
    if rule is None or len(operands) != 1 or operands[0] not in values:
        return None
    padded = rule(op, values[operands[0]])
    return None if padded is None else PaddedPart(frozenset(), {0: padded})


def _pad(op: ir.OpView, padded: Padded) -> Padded | None:
    """Further channels hold the border's number at the border."""
    pad = find_constant_pad(op)
    if pad is None or pad.low[padded.dim] or pad.high[padded.dim]:
        return None
    border = constant_value(pad.border)
    if border is None:
        return None
    return Padded(padded.dim, padded.own, padded.fills | {border})


def _slice(op: ir.OpView, padded: Padded) -> Padded | None:
    attributes = op.operation.attributes
    if len(shape_of(op.operation.results[0])) != len(shape_of(op.operation.operands[0])):
        return None
    offset, size, stride = (
        list(ir.DenseI64ArrayAttr(attributes[f"static_{name}"]))[padded.dim]
        for name in ("offsets", "sizes", "strides")
    )
    return padded if (offset, size, stride) == (0, padded.own, 1) else None


_VIEWS: Mapping[str, Callable[[ir.OpView, Padded], Padded | None]] = {
    PAD: _pad,
    "tensor.extract_slice": _slice,
}

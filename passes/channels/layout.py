"""Selects activations to store in blocks of 16 channels, and the loops of operations to split.

A value of shape [N, C, H, W] that is *blocked* along C is stored as [N, C / 16, H, W, 16]: the
layout in which a convolution loads and stores whole registers for any window and stride. The layout
starts at the results of contractions with constant weights and propagates through all operations
that treat channels uniformly: elementwise operations, pooling, padding, concatenation and views.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.channels.images import find_image
from rammer_mlir.passes.channels.propagation import (
    Changes,
    Part,
    changed_loops,
    is_convertible,
    slice_along,
    spread,
    trailing_elements,
)
from rammer_mlir.passes.contractions.byte_product import multiplies_bytes
from rammer_mlir.passes.fusion.grouping import CONCAT
from rammer_mlir.passes.ir.boxes import loops_in
from rammer_mlir.passes.ir.constant_pad import PAD, find_constant_pad
from rammer_mlir.passes.ir.fills import is_fresh
from rammer_mlir.passes.ir.packs import BLOCK, PACK, packed_dim
from rammer_mlir.passes.ir.reshapes import reassociation
from rammer_mlir.passes.ir.structured import Structured, plain_dim, shape_of


@dataclass(frozen=True)
class Blocked:
    """The layout of a blocked value, which is stored in blocks of 16 along dimension ``dim``."""

    dim: int


_LARGE_WINDOW = 9
"""Minimum number of elements of a depthwise window for which a copy into blocks saves time."""


def choose_layouts(
    operations: Sequence[ir.OpView], weights: Container[ir.Value]
) -> Changes[Blocked]:
    """Return the values to store in blocks of channels, and the operations to rewrite for them.

    A value is blocked only if this moves no elements in memory, or if a contraction or reduction
    becomes faster or a ``linalg.pack`` is eliminated.

    Args:
        operations: the operations of an MLIR block in order.
        weights: the values known at compile time.
    """
    return spread(operations, _Blocking(weights))


@dataclass(frozen=True)
class _Blocking:
    """The propagation rules of blocked layouts.

    If a loop of a ``linalg.generic`` indexes a blocked dimension, the loop is split into a loop
    over blocks and a loop over the points (elements) of a block. ``weights`` are the values known
    at compile time.
    """

    weights: Container[ir.Value]

    def generic_part(
        self, op: Structured, values: Mapping[ir.Value, Blocked], refused: Container[ir.Value]
    ) -> Part[Blocked] | None:
        """Return which loops of a ``linalg.generic`` are split, and which results become blocked.

        Return None if the operation cannot compute on blocked values. ``values`` maps each blocked
        value to its layout; results in ``refused`` keep the plain layout.
        """
        loops = changed_loops(op, values, self.weights, _divides, refused)
        if not loops or not _splittable(op, loops, self.weights):
            return None
        results: dict[int, Blocked] = {}
        for number, result in enumerate(op.op.operation.results):
            exprs = list(op.maps[len(op.inputs) + number].results)
            found = [dim for dim, expr in enumerate(exprs) if plain_dim(expr) in loops]
            if found and result not in refused:
                results[number] = Blocked(found[0])
            if found and not _can_start(op.outputs[number], values, results.get(number)):
                return None
        return Part(loops, results, pays=not op.is_elementwise)

    def view(self, op: ir.OpView, operands: Sequence[Blocked]) -> Blocked | None:
        """Return the blocked layout of the result of a reshape, slice, pad or concatenation.

        ``operands`` has the blocked layout of each operand. Return None if the result cannot be
        blocked.
        """
        rule = _VIEWS.get(op.operation.name)
        return None if rule is None else rule(op, operands)

    def layout_op_rewrite(
        self, op: ir.OpView, values: Mapping[ir.Value, Blocked], refused: Container[ir.Value]
    ) -> Part[Blocked] | None:
        """Return the rewrite that eliminates a ``linalg.pack`` or ``linalg.unpack``; else None.

        A pack is eliminated if its operand is a blocked value: the operand's blocked form replaces
        the pack's result. An unpack is eliminated unless its result is in ``refused``: the operand
        of the unpack becomes the blocked form of the result.
        """
        dim = packed_dim(op)
        if dim is None:
            return None
        if op.operation.name == PACK:
            is_blocked = values.get(op.operation.operands[0]) == Blocked(dim)
            return Part(frozenset(), {}, pays=True) if is_blocked else None
        is_refused = op.operation.results[0] in refused
        return None if is_refused else Part(frozenset(), {0: Blocked(dim)})

    def conversion(
        self, op: ir.OpView, value: ir.Value, values: Mapping[ir.Value, Blocked]
    ) -> Blocked | None:
        """Return the blocked layout to which a plain operand of a concatenation can be copied.

        ``value`` is the plain operand. Its new layout is the layout of the concatenation's blocked
        operands. Return None if their layouts differ, if a copy cannot convert ``value``, or if the
        count of its channels is not a multiple of the block size, 16.
        """
        layouts = {values[other] for other in op.operation.operands if other in values}
        if len(layouts) != 1 or not is_convertible(value, self.weights):
            return None
        (layout,) = layouts
        return layout if _divides(shape_of(value)[layout.dim]) else None

    def gainful(self, op: Structured) -> tuple[ir.Value, Blocked] | None:
        """Return the image of a convolution that should be copied into blocks, and its new layout.

        The image's channels must be a multiple of 16. Return None unless ``op`` is a depthwise
        convolution with a window of at least nine elements, or a convolution of 8-bit integers that
        is not depthwise. For 8-bit integers, blocks let a dot-product instruction read four
        channels of a pixel. In a depthwise convolution, each register holds 16 channels of a pixel:
        the register is full even if rows are short, and it is loaded once for each element of the
        window, without shuffles. If the window has nine or more elements, this saves more time than
        the copy costs. On an AVX-512 core, a 7x7 window on an image of 16x128x7x7 takes 181 us
        instead of 792 us; a 3x3 window on 1x32x112x112 takes 336 us instead of 441 us.
        """
        image = find_image(op, self.weights)
        if image is None or not _divides(image.channels):
            return None
        if image.is_depthwise and image.window < _LARGE_WINDOW:
            return None
        return (image.value, Blocked(1)) if image.is_depthwise or multiplies_bytes(op) else None

    def is_free(self, value: ir.Value, change: Blocked) -> bool:
        """Whether the elements of a value have the same order in the blocked and plain layout."""
        return trailing_elements(value, change.dim) == 1


def _divides(channels: int) -> bool:
    return channels % BLOCK == 0


def _splittable(op: Structured, loops: frozenset[int], weights: Container[ir.Value]) -> bool:
    """Whether a ``linalg.generic`` computes the same results after ``loops`` are split.

    Each loop is split into two, which run over blocks of 16 iterations and over the iterations
    (points) of a block.

    - The trip count of each split loop has to be a multiple of 16.
    - No affine expression may combine a split loop with another loop.
    - Each operand that is not a weight may be indexed by at most one of the split loops.
    """
    if not all(_divides(op.extents[loop]) for loop in loops):
        return False
    for map_, value in zip(op.maps, op.op.operation.operands, strict=True):
        plain = [expr for expr in map_.results if plain_dim(expr) in loops]
        rest = [expr for expr in map_.results if plain_dim(expr) not in loops]
        if any(not loops.isdisjoint(loops_in(expr)) for expr in rest):
            return False
        if len(plain) > 1 and value not in weights:
            return False
    return True


def _can_start(init: ir.Value, values: Mapping[ir.Value, Blocked], result: Blocked | None) -> bool:
    """Whether a ``linalg.generic``'s initial tensor is available in the layout of the result.

    The initial tensor ``init`` has to be an empty tensor, a fill, or a value in the blocked layout
    of the result. ``result`` is this blocked layout, or None if the result has the plain layout.
    """
    return is_fresh(init) or (result is not None and values.get(init) == result)


def _pad(op: ir.OpView, operands: Sequence[Blocked]) -> Blocked | None:
    pad, (source,) = find_constant_pad(op), operands
    return None if pad is None or pad.low[source.dim] or pad.high[source.dim] else source


def _concat(op: ir.OpView, operands: Sequence[Blocked]) -> Blocked | None:
    return operands[0] if len(set(operands)) == 1 else None


def _slice(op: ir.OpView, operands: Sequence[Blocked]) -> Blocked | None:
    bounds = slice_along(op, operands[0].dim)
    if bounds is None:
        return None
    offset, size, stride = bounds
    return operands[0] if _divides(offset) and _divides(size) and stride == 1 else None


def _expand(op: ir.OpView, operands: Sequence[Blocked]) -> Blocked | None:
    last = reassociation(op)[operands[0].dim][-1]
    return Blocked(last) if _divides(shape_of(op.operation.results[0])[last]) else None


def _collapse(op: ir.OpView, operands: Sequence[Blocked]) -> Blocked | None:
    shape, source = shape_of(op.operation.operands[0]), operands[0].dim
    for number, group in enumerate(reassociation(op)):
        if source in group:
            is_last = all(shape[dim] == 1 for dim in group if dim > source)
            return Blocked(number) if is_last else None
    return None


_VIEWS: Mapping[str, Callable[[ir.OpView, Sequence[Blocked]], Blocked | None]] = {
    PAD: _pad,
    CONCAT: _concat,
    "tensor.extract_slice": _slice,
    "tensor.expand_shape": _expand,
    "tensor.collapse_shape": _collapse,
}

"""Which activations are stored in blocks of channels, and how each operation goes along.

A value of shape [N, C, H, W] that is *blocked* along C is stored as [N, C / 16, H, W, 16]: the
layout in which a convolution loads and stores whole registers, whatever its window and stride. It
begins at the results of contractions with constant weights and spreads through everything that
treats channels alike: elementwise operations, pooling, padding, concatenation and views.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.boxes import loops_in
from rammer_mlir.passes.constant_pad import PAD, find_constant_pad
from rammer_mlir.passes.fills import is_fresh
from rammer_mlir.passes.fusion import CONCAT
from rammer_mlir.passes.structured import (
    Structured,
    body_operations,
    is_generic,
    plain_dim,
    shape_of,
)

BLOCK = 16
"""Channels of a block: one AVX-512 register of f32, or two of AVX2."""


@dataclass(frozen=True)
class Part:
    """How one operation goes along.

    ``loops`` are a generic's loops that are split into blocks and points; ``results`` maps the
    numbers of the results that are blocked to the dimension that is.
    """

    loops: frozenset[int]
    results: Mapping[int, int]


@dataclass(frozen=True)
class Layouts:
    """The blocked dimension of each blocked value, and how operations take part."""

    dims: Mapping[ir.Value, int]
    parts: Mapping[ir.Operation, Part]


def choose_layouts(operations: Sequence[ir.OpView], weights: Container[ir.Value]) -> Layouts:
    """Return the layouts of a block's values; ``weights`` are those known at compile time.

    No value is blocked only to be brought back to its plain layout.
    """
    refused: set[ir.Value] = set()
    while True:
        layouts = _spread(operations, weights, refused)
        useless = _useless(operations, layouts)
        if not useless:
            return layouts
        refused |= useless


def trailing_elements(value: ir.Value, dim: int) -> int:
    """Count the elements behind one index of a dimension: 1 where blocking moves nothing."""
    return prod(shape_of(value)[dim + 1 :])


def _spread(
    operations: Sequence[ir.OpView], weights: Container[ir.Value], refused: Container[ir.Value]
) -> Layouts:
    dims: dict[ir.Value, int] = {}
    parts: dict[ir.Operation, Part] = {}
    for op in operations:
        part = _part(op, dims, weights, refused)
        if part is None:
            continue
        parts[op.operation] = part
        for number, dim in part.results.items():
            dims[op.operation.results[number]] = dim
    return Layouts(dims, parts)


def _useless(operations: Sequence[ir.OpView], layouts: Layouts) -> set[ir.Value]:
    """Return the blocked values from which no reduction is computed, however far behind."""
    pays: set[ir.Value] = set()
    for op in reversed(operations):
        part = layouts.parts.get(op.operation)
        if part is None:
            continue
        results = [op.operation.results[number] for number in part.results]
        reduces = is_generic(op) and not Structured(op).is_elementwise
        if reduces or any(value in pays for value in results):
            pays.update(value for value in op.operation.operands if value in layouts.dims)
    return {
        value
        for value, dim in layouts.dims.items()
        if value not in pays and trailing_elements(value, dim) > 1
    }


def _part(
    op: ir.OpView,
    dims: Mapping[ir.Value, int],
    weights: Container[ir.Value],
    refused: Container[ir.Value],
) -> Part | None:
    if is_generic(op):
        return _generic_part(Structured(op), dims, weights, refused)
    rule = _VIEWS.get(op.operation.name)
    if rule is None or any(value not in dims for value in op.operation.operands):
        return None
    if op.operation.results[0] in refused:
        return None
    dim = rule(op, [dims[value] for value in op.operation.operands])
    return None if dim is None else Part(frozenset(), {0: dim})


def _generic_part(
    op: Structured,
    dims: Mapping[ir.Value, int],
    weights: Container[ir.Value],
    refused: Container[ir.Value],
) -> Part | None:
    values = list(op.op.operation.operands)
    loops: set[int] = set()
    for map_, value in zip(op.maps, values, strict=True):
        if value in dims:
            loop = plain_dim(map_.results[dims[value]])
            if loop is None:
                return None
            loops.add(loop)
    lane = _output_channels(op, weights)
    if lane is not None and op.op.operation.results[0] not in refused:
        loops.add(lane)
    if not loops or not _splittable(op, loops, weights):
        return None
    results: dict[int, int] = {}
    for number, result in enumerate(op.op.operation.results):
        exprs = list(op.maps[len(op.inputs) + number].results)
        found = [dim for dim, expr in enumerate(exprs) if plain_dim(expr) in loops]
        if found and result not in refused:
            results[number] = found[0]
        if found and not _can_start(op.outputs[number], dims, results.get(number)):
            return None
    return Part(frozenset(loops), results)


def _output_channels(op: Structured, weights: Container[ir.Value]) -> int | None:
    """Return the loop over the output channels of a convolution with constant f32 weights."""
    result = op.op.operation.results[0]
    if not op.is_contraction or op.num_outputs != 1:
        return None
    if not isinstance(ir.RankedTensorType(result.type).element_type, ir.F32Type):
        return None
    for position, value in enumerate(op.inputs):
        exprs = list(op.maps[position].results)
        lane = plain_dim(exprs[-1]) if value in weights and exprs else None
        if lane is None or not op.parallel[lane] or op.extents[lane] % BLOCK:
            continue
        others = [m for n, m in enumerate(op.maps[: len(op.inputs)]) if n != position]
        if any(lane in loops_in(expr) for map_ in others for expr in map_.results):
            continue
        dims = op.result_dims(0)
        if dims is not None and trailing_elements(result, dims.index(lane)) > 1:
            return lane
    return None


def _splittable(op: Structured, loops: set[int], weights: Container[ir.Value]) -> bool:
    """Whether the loops divide into blocks, and every operand moves plainly along them."""
    if any(op.extents[loop] % BLOCK for loop in loops):
        return False
    if any(isinstance(value.type, ir.RankedTensorType) for value in op.captures):
        return False
    if any(inner.operation.name == "linalg.index" for inner in body_operations(op.op)):
        return False
    for map_, value in zip(op.maps, op.op.operation.operands, strict=True):
        plain = [expr for expr in map_.results if plain_dim(expr) in loops]
        rest = [expr for expr in map_.results if plain_dim(expr) not in loops]
        if any(loop in loops_in(expr) for expr in rest for loop in loops):
            return False
        if len(plain) > 1 and value not in weights:
            return False
    return True


def _can_start(init: ir.Value, dims: Mapping[ir.Value, int], dim: int | None) -> bool:
    """Whether a result's initial value can be had in the layout of the result."""
    return is_fresh(init) or (dim is not None and dims.get(init) == dim)


def _pad(op: ir.OpView, dims: Sequence[int]) -> int | None:
    pad = find_constant_pad(op)
    return None if pad is None or pad.low[dims[0]] or pad.high[dims[0]] else dims[0]


def _concat(op: ir.OpView, dims: Sequence[int]) -> int | None:
    return dims[0] if len(set(dims)) == 1 else None


def _slice(op: ir.OpView, dims: Sequence[int]) -> int | None:
    operation = op.operation
    if len(shape_of(operation.results[0])) != len(shape_of(operation.operands[0])):
        return None
    offset, size, stride = (
        list(ir.DenseI64ArrayAttr(operation.attributes[f"static_{name}"]))[dims[0]]
        for name in ("offsets", "sizes", "strides")
    )
    return dims[0] if offset % BLOCK == 0 and size % BLOCK == 0 and stride == 1 else None


def _expand(op: ir.OpView, dims: Sequence[int]) -> int | None:
    group = reassociation(op)[dims[0]]
    return group[-1] if shape_of(op.operation.results[0])[group[-1]] % BLOCK == 0 else None


def _collapse(op: ir.OpView, dims: Sequence[int]) -> int | None:
    shape = shape_of(op.operation.operands[0])
    for number, group in enumerate(reassociation(op)):
        if dims[0] in group:
            behind = [d for d in group if d > dims[0]]
            return number if all(shape[d] == 1 for d in behind) else None
    return None


_VIEWS: Mapping[str, Callable[[ir.OpView, Sequence[int]], int | None]] = {
    PAD: _pad,
    CONCAT: _concat,
    "tensor.extract_slice": _slice,
    "tensor.expand_shape": _expand,
    "tensor.collapse_shape": _collapse,
}


def reassociation(op: ir.OpView) -> list[list[int]]:
    """Return which dimensions of the larger shape belong together."""
    groups = ir.ArrayAttr(op.operation.attributes["reassociation"])
    return [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)] for group in groups]

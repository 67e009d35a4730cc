"""Cut long sums of products into pieces whose weights stay in the first level of cache.

A register tile of a product reads a panel of one operand along the whole sum, and the next tile
reads the same panel again. Where the panel is larger than the first level of cache, it comes from
the second one every time. So the sum goes on outside: one piece of it for all tiles, then the next
piece, with partial sums in the result's own memory (Goto and van de Geijn, *Anatomy of
High-Performance Matrix Multiplication*). Sums are added up in the same order as before.
"""

from __future__ import annotations

from math import prod
from typing import Any

from rammer_mlir.bindings import arith, ir, memref, scf
from rammer_mlir.lowering.ir_walk import walk

_PANEL_BYTES = 20 * 1024
"""Of a panel's piece: less than half of the 48 or 32 KiB of a first level of cache."""

_PANEL_WIDTH = 32
"""Elements of a panel for one step of the sum: two AVX-512 registers of f32."""

_FEWEST_TILES = 28
"""Results that share a panel from which on it is worth it: two register tiles, mostly."""

_LONG_PANEL_BYTES = 96 * 1024
"""Panels up to here, twice the first level of cache, come from the second one fast enough."""


def split_long_reductions(function: Any) -> None:
    """Rewrite the long products on memrefs in a function."""
    for operation in [op for op in walk(function) if op.name == "linalg.generic"]:
        loop = _loop_to_split(operation)
        if loop is not None:
            _split(operation, *loop)


def _loop_to_split(operation: Any) -> tuple[int, int, int] | None:
    """Return a reduction loop, its trip count and that of a piece; None where nothing is gained."""
    sizes = _sizes(operation)
    body = [inner.name for inner in _body(operation)]
    if sizes is None or len(operation.operands) != 3 or body[-3:-1] != ["arith.mulf", "arith.addf"]:
        return None
    if not isinstance(operation.operands[2].type.element_type, ir.F32Type | ir.F64Type):
        return None
    kinds = ["reduction" in str(kind) for kind in operation.attributes["iterator_types"]]
    reductions = [loop for loop, reduction in enumerate(kinds) if reduction and sizes[loop] > 1]
    inputs = [_dims(operation, number) for number in range(2)]
    if not reductions or any(dims is None for dims in inputs):
        return None  # a convolution's windows overlap: what they read again is near
    if not all(dims is not None and set(reductions) <= set(dims) for dims in inputs):
        return None
    first, *inner = reductions
    element = operation.operands[2].type.element_type.width // 8
    step = prod(sizes[loop] for loop in inner) * _PANEL_WIDTH * element
    if sizes[first] * step <= _LONG_PANEL_BYTES:
        return None
    fitting = range(1, _PANEL_BYTES // step + 1)
    piece = max((n for n in fitting if sizes[first] % n == 0), default=0)
    if piece * step < _PANEL_BYTES // 4:
        return None  # no divisor of a useful size: many small pieces cost more than they save
    shared = [
        prod(
            sizes[loop]
            for loop in range(len(sizes))
            if not kinds[loop] and loop not in (dims or ())
        )
        for dims in inputs
    ]
    return (first, sizes[first], piece) if max(shared) >= _FEWEST_TILES else None


def _body(operation: Any) -> list[Any]:
    return [inner.operation for inner in operation.regions[0].blocks[0].operations]


def _dims(operation: Any, number: int) -> list[int] | None:
    """Return the loops that index an operand; None if one of them does not do so alone."""
    results = list(operation.attributes["indexing_maps"][number].value.results)
    plain = [expr.position for expr in results if isinstance(expr, ir.AffineDimExpr)]
    return plain if len(plain) == len(results) else None


def _sizes(operation: Any) -> list[int] | None:
    """Return the trip count of every loop; None if only the run knows one."""
    maps = [attribute.value for attribute in operation.attributes["indexing_maps"]]
    found: dict[int, int] = {}
    for value, map_ in zip(operation.operands, maps, strict=True):
        if not isinstance(value.type, ir.MemRefType):
            return None
        for expr, size in zip(map_.results, value.type.shape, strict=True):
            if isinstance(expr, ir.AffineDimExpr) and size >= 0:
                found.setdefault(expr.position, size)
    sizes = [found.get(loop) for loop in range(maps[0].n_dims)]
    return None if None in sizes else [size for size in sizes if size is not None]


def _split(operation: Any, loop: int, trips: int, piece: int) -> None:
    with ir.InsertionPoint(operation), operation.location:
        bounds = [_index(number) for number in (0, trips, piece)]
        outer = scf.ForOp(*bounds)
    with ir.InsertionPoint(outer.body), operation.location:
        start = outer.induction_variable
        pieces = [
            _piece(operation.operands[number], _dims(operation, number), loop, piece, start)
            for number in range(2)
        ]
        part = operation.clone().operation
        part.operands[0], part.operands[1] = pieces
        scf.YieldOp([])
    operation.erase()


def _index(number: int) -> Any:
    return arith.constant(ir.IndexType.get(), number)


def _piece(value: Any, dims: list[int] | None, loop: int, piece: int, start: Any) -> Any:
    """Return a view of an operand's part that a piece of the sum reads."""
    assert dims is not None
    shape = list(value.type.shape)
    strides, _ = value.type.get_strides_and_offset()
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [piece if dim == loop else size for dim, size in zip(dims, shape, strict=True)]
    offsets = [dynamic if dim == loop else 0 for dim in dims]
    layout = ir.StridedLayoutAttr.get(ir.MemRefType.get_dynamic_stride_or_offset(), strides)
    kind = ir.MemRefType.get(sizes, value.type.element_type, layout, value.type.memory_space)
    ones = [1] * len(sizes)
    return memref.SubViewOp(kind, value, [start], [], [], offsets, sizes, ones).result

"""Cut long sums of products into pieces whose weights stay in the first level of cache.

A register tile of a product reads a panel of one operand along the whole sum, and the next tile
reads the same panel again. Where the panel is larger than the first level of cache, it comes from
the second one every time. So the sum goes on outside: one piece of it for all tiles, then the next
piece, with partial sums in the result's own memory (Goto and van de Geijn, *Anatomy of
High-Performance Matrix Multiplication*). Sums are added up in the same order as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import arith, ir, memref, scf
from rammer_mlir.lowering.cpu.vectorize.prefetch import PIECE
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.ir.structured import Structured, element_bytes, is_buffer, plain_dim

_PANEL_BYTES = 20 * 1024
"""Of a panel's piece: less than half of the 48 or 32 KiB of a first level of cache."""

_PANEL_WIDTH = 32
"""Elements of a panel for one step of the sum: two AVX-512 registers of f32."""

_FEWEST_TILES = 28
"""Results that share a panel from which on it is worth it: two register tiles, mostly."""

_LONG_PANEL_BYTES = 96 * 1024
"""Panels up to here, twice the first level of cache, come from the second one fast enough."""


def split_long_reductions(function: ir.Operation) -> None:
    """Rewrite the long products on memrefs in a function."""
    for operation in [op for op in walk(function) if op.name == "linalg.generic"]:
        product = Structured(operation.opview)
        if not _is_product(product):
            continue
        piece = _piece_of_sum(product)
        if piece is not None:
            _split(product, piece)


@dataclass(frozen=True)
class _Piece:
    """A reduction loop that is cut, and its trip count in each piece."""

    loop: int
    trips: int


def _is_product(op: Structured) -> bool:
    """Whether an operation adds up products of two operands that both move along all reductions."""
    body = [inner.operation.name for inner in op.body]
    if len(op.maps) != 3 or op.num_outputs != 1 or body[-2:] != ["arith.mulf", "arith.addf"]:
        return False
    if not all(is_buffer(value) and value.type.has_static_shape for value in op.operands):
        return False
    if not isinstance(op.arguments[2].type, ir.F32Type | ir.F64Type):
        return False
    # A convolution's windows overlap: what they read again is near.
    reductions = set(_reductions(op))
    inputs = [_loops(map_) for map_ in op.maps[:2]]
    return bool(reductions) and all(None not in dims and reductions <= set(dims) for dims in inputs)


def _piece_of_sum(op: Structured) -> _Piece | None:
    """Return the piece of a product's sum that is done at a time; None where nothing is gained."""
    first, *inner = _reductions(op)
    element = element_bytes(op.outputs[0].type)
    step = prod(op.extents[loop] for loop in inner) * _PANEL_WIDTH * element
    if op.extents[first] * step <= _LONG_PANEL_BYTES:
        return None
    fitting = range(1, _PANEL_BYTES // step + 1)
    piece = max((n for n in fitting if op.extents[first] % n == 0), default=0)
    if piece * step < _PANEL_BYTES // 4:
        return None  # no divisor of a useful size: many small pieces cost more than they save
    sharing = [_results_sharing(op, map_) for map_ in op.maps[:2]]
    return _Piece(first, piece) if max(sharing) >= _FEWEST_TILES else None


def _reductions(op: Structured) -> list[int]:
    """Return the reduction loops that run more than once, outermost first."""
    return [loop for loop, n in enumerate(op.extents) if not op.parallel[loop] and n > 1]


def _loops(map_: ir.AffineMap) -> list[int | None]:
    """Return the loop that indexes each dimension by itself, None where it is not one alone."""
    return [plain_dim(expr) for expr in map_.results]


def _results_sharing(op: Structured, map_: ir.AffineMap) -> int:
    """Return how many results read the same elements of an operand."""
    moving = _loops(map_)
    return prod(n for loop, n in enumerate(op.extents) if op.parallel[loop] and loop not in moving)


def _split(op: Structured, piece: _Piece) -> None:
    operation = op.op.operation
    with ir.InsertionPoint(operation), operation.location:
        bounds = [_index(number) for number in (0, op.extents[piece.loop], piece.trips)]
        outer = scf.ForOp(*bounds)
    with ir.InsertionPoint(outer.body), operation.location:
        start = outer.induction_variable
        parts = [
            _part(value, _loops(map_), piece, start)
            for value, map_ in zip(op.inputs, op.maps, strict=False)
        ]
        copy = operation.clone().operation
        for number, part in enumerate(parts):
            copy.operands[number] = part
        copy.attributes[PIECE] = ir.DenseI64ArrayAttr.get([piece.loop, piece.trips])
        scf.YieldOp([])
    operation.erase()


def _index(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)


def _part(value: ir.Value, loops: list[int | None], piece: _Piece, start: ir.Value) -> ir.Value:
    """Return a view of an operand's part that a piece of the sum reads."""
    kind = ir.MemRefType(value.type)
    strides, _ = kind.get_strides_and_offset()
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [
        piece.trips if loop == piece.loop else size
        for loop, size in zip(loops, kind.shape, strict=True)
    ]
    offsets = [dynamic if loop == piece.loop else 0 for loop in loops]
    layout = ir.StridedLayoutAttr.get(ir.MemRefType.get_dynamic_stride_or_offset(), strides)
    view = ir.MemRefType.get(sizes, kind.element_type, layout, kind.memory_space)
    ones = [1] * len(sizes)
    return memref.SubViewOp(view, value, [start], [], [], offsets, sizes, ones).result

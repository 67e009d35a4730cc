"""Splits long sums of products into pieces to keep reread data in the L1 cache.

A register tile of a product reads some rows or columns of an operand along the whole sum, the
*panel* of the tile; the next tile reads the same panel again. If the panel exceeds the first-level
cache, each tile loads the panel from the second level. A *piece* is a range of the sum's iterations
for which the panel fits. The loop over pieces becomes the outer loop: all tiles compute one piece
of their sums, then the next piece, with partial sums in the result's memory (Goto and van de Geijn,
*Anatomy of High-Performance Matrix Multiplication*). The order of summation is unchanged, with one
exception: dot products accumulate in the lanes of registers, and sum the lanes after each piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import arith, ir, memref, scf
from rammer_mlir.lowering.cpu.vectorize.prefetch import PIECE
from rammer_mlir.lowering.ir_walk import producer, walk
from rammer_mlir.lowering.kernels.affine import Index, upper_bound
from rammer_mlir.passes.ir.boxes import panel_index
from rammer_mlir.passes.ir.structured import (
    Structured,
    as_buffer,
    element_bytes,
    is_buffer,
    plain_dim,
)

_PANEL_BYTES = 20 * 1024
"""Most bytes of a panel that a piece reads: below half of a first-level cache of 48 KiB."""

_PANEL_REGISTERS = 2
"""Assumed registers of a panel per step of the sum."""

_DOT_PRODUCT_ROWS = 8
"""Assumed elements of a panel per step of the sum if both operands are contiguous along the sum."""

_FEWEST_TILES = 28
"""Fewest results that share a panel for which splitting pays: mostly two register tiles."""

_FAR_BYTES = 2048
"""Least stride in bytes of a sum's loop with which most steps read separate pages."""

_LONG_PANEL_BYTES = 96 * 1024
"""Most bytes of an unsplit panel whose steps are close in memory: two first-level caches.

Such a panel comes from the second level fast enough.
"""


def split_long_reductions(function: ir.Operation, vector_bits: int) -> None:
    """Split the products on memrefs in ``function`` whose sums are too long for the L1 cache.

    A sum is too long if a register tile reads more of an operand along the whole sum than the L1
    cache can keep for the next tile. The product then becomes a loop over pieces of its sum. A
    register has ``vector_bits`` bits.
    """
    for operation in [op for op in walk(function) if op.name == "linalg.generic"]:
        product = Structured(operation.opview)
        if not _is_product(product):
            continue
        piece = _piece_of_sum(product, vector_bits)
        if piece is not None:
            _split(product, piece)


@dataclass(frozen=True)
class _Piece:
    """A split of a sum: the index of the reduction loop, and the trip count of a piece."""

    loop: int
    trips: int


def _is_product(op: Structured) -> bool:
    """Return whether an operation is a float sum of products of two inputs, all on memrefs.

    The reduction loops must be static. Both inputs must depend on every reduction loop with more
    than one trip. Each dimension of an input must be indexed by a single loop (``loop``) or, in a
    layout of panels, by ``loop floordiv width`` or ``loop mod width`` of a parallel loop. This
    excludes a convolution's windows. The body must not read the indices of loops, which would begin
    at 0 in each piece.
    """
    body = [inner.operation.name for inner in op.body]
    if len(op.maps) != 3 or op.num_outputs != 1 or body[-2:] != ["arith.mulf", "arith.addf"]:
        return False
    if op.uses_index or not all(is_buffer(value) for value in op.operands):
        return False
    if not isinstance(op.arguments[2].type, ir.F32Type | ir.F64Type):
        return False
    # The windows of a convolution overlap: repeated reads hit nearby data.
    reductions = set(_reductions(op))
    inputs = [_loops(map_) for map_ in op.maps[:2]]
    places = [panel_index(expr) for map_ in op.maps[:2] for expr in map_.results]
    if any(place is not None and place.loop in reductions for place in places):
        return False
    if ir.ShapedType.get_dynamic_size() in (op.extents[loop] for loop in op.reduction_loops):
        return False
    return bool(reductions) and all(None not in dims and reductions <= set(dims) for dims in inputs)


def _piece_of_sum(op: Structured, vector_bits: int) -> _Piece | None:
    """Return the piece by which to split a product's sum; None if splitting does not pay.

    A register has ``vector_bits`` bits.
    """
    first, *inner = _reductions(op)
    element = element_bytes(op.outputs[0].type)
    row = (
        _DOT_PRODUCT_ROWS * element
        if _are_dot_products(op)
        else _PANEL_REGISTERS * vector_bits // 8
    )
    step = prod(op.extents[loop] for loop in inner) * row
    is_spread = any(_is_spread(op, number) for number in range(2))
    longest = _PANEL_BYTES if is_spread else _LONG_PANEL_BYTES
    if op.extents[first] * step <= longest or step > _PANEL_BYTES:
        return None
    panels = [map_ for map_ in op.maps[:2] if any(map(panel_index, map_.results))]
    sharing = [_results_sharing(op, map_) for map_ in panels or op.maps[:2]]
    if max(sharing) < _FEWEST_TILES and not is_spread:
        return None
    return _Piece(first, _trips(op.extents[first], _PANEL_BYTES // step))


def _trips(total: int, most: int) -> int:
    """Return the trip count of a piece of a reduction loop of ``total`` trips, at most ``most``.

    Let n be the largest divisor of ``total`` up to ``most``. Return n if n is at least half of
    ``most``. Else return a trip count for the fewest possible pieces, all equal except for a
    smaller last piece.
    """
    divisor = max(n for n in range(1, most + 1) if total % n == 0)
    return divisor if 2 * divisor >= most else -(-total // -(-total // most))


def _are_dot_products(op: Structured) -> bool:
    """Return whether a reduction loop indexes the last dimension of each of a product's two inputs.

    The lanes of a register are then summed after each piece of the reduction, which is slow for
    short pieces.
    """
    return all(_loops(map_)[-1] in op.reduction_loops for map_ in op.maps[:2])


def _is_spread(op: Structured, number: int) -> bool:
    """Return whether a sum reads elements of operand ``number`` that are far apart in memory.

    They are far apart if every reduction loop has a stride of at least ``_FAR_BYTES`` in the
    operand, and a parallel loop with more than one trip indexes the operand's last dimension.
    """
    kind = as_buffer(op.operands[number]).type
    strides, _ = kind.get_strides_and_offset()
    loops = _loops(op.maps[number])
    if loops[-1] is None or not op.parallel[loops[-1]] or op.extents[loops[-1]] == 1:
        return False
    steps = [s for s, loop in zip(strides, loops, strict=True) if loop in op.reduction_loops]
    return all(step * element_bytes(kind) >= _FAR_BYTES for step in steps)


def _reductions(op: Structured) -> list[int]:
    """Return the indices of the reduction loops with more than one trip, outermost first."""
    return [loop for loop in op.reduction_loops if op.extents[loop] != 1]


def _loops(map_: ir.AffineMap) -> list[int | None]:
    """Return, for each dimension of an operand, the index of the loop that indexes the dimension.

    The index expression of a dimension is ``loop`` or, in a layout of panels, ``loop floordiv
    width`` or ``loop mod width``. The result is None for a dimension with any other expression.
    ``map_`` is the operand's indexing map.
    """
    places = [panel_index(expr) for expr in map_.results]
    return [
        plain_dim(expr) if place is None else place.loop
        for expr, place in zip(map_.results, places, strict=True)
    ]


def _results_sharing(op: Structured, map_: ir.AffineMap) -> int:
    """Return the count of a product's results that depend on the same element of an operand.

    ``map_`` is the indexing map of the operand. The count is the product of the extents of the
    parallel loops that do not index the operand; an extent without a known bound counts as 1.
    """
    moving = _loops(map_)
    shared = [op.extent_sources[loop] for loop in op.parallel_loops if loop not in moving]
    return prod(_bound(_known_size(source.value, source.dimension)) for source in shared)


def _bound(size: Index | None) -> int:
    """Return an upper bound on a dimension's size; 1 if no bound is known.

    The caller multiplies the bounds of several dimensions, so that a dimension without a known
    bound does not count. ``size`` is an int, a value of the IR, or None for an unknown size.
    """
    return size if isinstance(size, int) else (size and upper_bound(size)) or 1


def _known_size(value: ir.Value, dimension: int) -> Index | None:
    """Return the size of a buffer's dimension: an int, a value of the IR, or None if unknown.

    A dynamic size is known only if the buffer is the result of a ``memref.subview``; the size is
    then an operand of the subview.
    """
    kind = as_buffer(value).type
    if not kind.is_dynamic_dim(dimension):
        return kind.get_dim_size(dimension)
    if isinstance(value.owner, ir.Block) or producer(value) != "memref.subview":
        return None
    source, offsets, *_ = ir.DenseI32ArrayAttr(value.owner.attributes["operandSegmentSizes"])
    place = sum(map(kind.is_dynamic_dim, range(dimension)))
    return value.owner.operands[source + offsets + place]


def _split(op: Structured, piece: _Piece) -> None:
    """Replace a product by a loop over equal pieces of its sum.

    If the trip count of the sum is no multiple of the trip count of a piece, a product for the
    remaining iterations follows.
    """
    operation = op.op.operation
    rest = op.extents[piece.loop] % piece.trips
    end = op.extents[piece.loop] - rest
    with ir.InsertionPoint(operation), operation.location:
        outer = scf.ForOp(*[_index(number) for number in (0, end, piece.trips)])
        if rest:
            _emit_piece(op, _Piece(piece.loop, rest), _index(end))
    with ir.InsertionPoint(outer.body), operation.location:
        _emit_piece(op, piece, outer.induction_variable)
        scf.YieldOp([])
    operation.erase()


def _emit_piece(op: Structured, piece: _Piece, start: ir.Value) -> None:
    """Emit a copy of the product that adds a piece of its sum to the results.

    The piece has ``piece.trips`` trips of loop ``piece.loop``, and begins at trip ``start``.
    """
    parts = [
        _part(value, _loops(map_), piece, start)
        for value, map_ in zip(op.inputs, op.maps, strict=False)
    ]
    copy = op.op.operation.clone().operation
    for number, part in enumerate(parts):
        copy.operands[number] = part
    copy.attributes[PIECE] = ir.DenseI64ArrayAttr.get([piece.loop, piece.trips])


def _index(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)


def _part(value: ir.Value, loops: list[int | None], piece: _Piece, start: ir.Value) -> ir.Value:
    """Emit the subview of operand ``value`` that a piece of the sum reads.

    The subview has ``piece.trips`` elements, from ``start`` on, along each dimension that loop
    ``piece.loop`` indexes, and all elements along the other dimensions. ``loops`` has, for each
    dimension of the operand, the index of the loop that indexes the dimension, or None.
    """
    kind = ir.MemRefType(value.type)
    strides, _ = kind.get_strides_and_offset()
    dynamic = ir.ShapedType.get_dynamic_size()
    known = [_known_size(value, dimension) for dimension in range(len(loops))]
    sizes = [
        piece.trips if loop == piece.loop else size or memref.dim(value, _index(dimension))
        for dimension, (loop, size) in enumerate(zip(loops, known, strict=True))
    ]
    static = [size if isinstance(size, int) else dynamic for size in sizes]
    moving = [size for size in sizes if not isinstance(size, int)]
    offsets = [dynamic if loop == piece.loop else 0 for loop in loops]
    layout = ir.StridedLayoutAttr.get(ir.MemRefType.get_dynamic_stride_or_offset(), strides)
    view = ir.MemRefType.get(static, kind.element_type, layout, kind.memory_space)
    ones = [1] * len(sizes)
    return memref.SubViewOp(view, value, [start], moving, [], offsets, static, ones).result

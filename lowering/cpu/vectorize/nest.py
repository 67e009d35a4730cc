"""A ``linalg.generic`` on memrefs, read as a loop nest over flat memory.

Every operand becomes a one-dimensional buffer with an offset and, per loop, a stride, which shows
contiguous, strided and invariant accesses for any rank and map. An operand whose map is not linear
keeps the map and is addressed element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rammer_mlir.bindings import ir, memref
from rammer_mlir.lowering.cpu.vectorize.body import Body
from rammer_mlir.lowering.cpu.vectorize.epilogue import Epilogue
from rammer_mlir.lowering.cpu.vectorize.tile import Access, Loop, LoopNest
from rammer_mlir.lowering.ir_walk import producer
from rammer_mlir.lowering.kernels.affine import (
    Index,
    add,
    evaluate,
    multiply,
    upper_bound,
)
from rammer_mlir.passes.ir.boxes import PANEL_WIDTH, Linear, linear_form, panel_index
from rammer_mlir.passes.ir.structured import (
    Buffer,
    LoopDimension,
    Structured,
    as_buffer,
    is_buffer,
)

_UNKNOWN_TRIPS = 64  # estimate of a trip count without a known bound


@dataclass(frozen=True)
class Jump:
    """An addition to an address, in elements, for each whole panel of points of a loop."""

    loop: int
    distance: Index


@dataclass
class Operand:
    """An operand: a scalar, or a flat buffer with an address of ``offset + strides * loops``.

    ``value`` is the scalar or the flat ``memref<?xT>``. ``strides`` has an entry per loop.
    ``jumps`` are added to the address if panels of a loop's points are not contiguous. ``results``
    has the expressions of an indexing map that is not linear, else None, and ``dim_strides`` the
    buffer's stride for each result of the map.
    """

    value: ir.Value
    element: ir.Type
    is_scalar: bool
    offset: Index
    strides: list[Index]
    results: list[ir.AffineExpr] | None
    dim_strides: Sequence[Index]
    jumps: Sequence[Jump] = ()

    def access(self, loops: list[int]) -> Access:
        """Return the operand's stride along each of ``loops``, None if it is not constant."""
        if self.results is not None:
            return Access(tuple(None for _ in loops))
        strides = [self.strides[loop] for loop in loops]
        return Access(tuple(s if isinstance(s, int) else None for s in strides))

    def address(self, dims: list[Index]) -> Index:
        """Emit the address at the given loop indices, for a map that is not linear."""
        assert self.results is not None, "strides tell the address"
        total = self.offset
        for stride, result in zip(self.dim_strides, self.results, strict=True):
            total = add(total, multiply(evaluate(result, dims), stride))
        return total


@dataclass(frozen=True)
class Finish:
    """An epilogue over a nest's dimensions, applied to each result before the store.

    ``operands`` are the epilogue's, its output last. ``argument`` is the number of the operand that
    the result replaces. ``keeps`` tells whether the result itself is stored too.
    """

    body: Body
    operands: list[Operand]
    argument: int
    keeps: bool


class Nest:
    """The loops, operands and body of a ``linalg.generic``, and its epilogue.

    ``sizes`` and ``reduction`` have an entry per dimension of the operation. ``loops`` lists the
    iterated dimensions: neither those of size 1, nor those merged with an adjacent dimension.
    """

    def __init__(self, operation: ir.Operation, epilogue: Epilogue | None = None) -> None:
        self.operation = operation
        self.generic = Structured(operation.opview)
        self.reduction = [not parallel for parallel in self.generic.parallel]
        self.body = Body(self.generic, contract=any(self.reduction))
        self.outputs = self.generic.num_outputs
        self.sizes: list[Index] = []
        self.bounds: list[int] = []
        for source in self.generic.extent_sources:
            self._read_size(source)
        self.operands = [
            _read_operand(value, affine_map, len(self.sizes))
            for value, affine_map in zip(self.generic.operands, self.generic.maps, strict=True)
        ]
        self.finish = None if epilogue is None else _read_finish(epilogue, len(self.sizes))
        self.loops = [d for d, size in enumerate(self.sizes) if size != 1]
        if not self.body.indices:
            self._merge_loops()

    def _read_size(self, source: LoopDimension) -> None:
        """Append the size of the next dimension, and its upper bound, to ``sizes`` and ``bounds``.

        ``source`` is an operand's dimension with this size.
        """
        size: Index = source.size
        bound: int | None = source.size
        if not source.is_static:
            size = _metadata(as_buffer(source.value))[2][source.dimension]
            bound = size if isinstance(size, int) else upper_bound(size)
        self.sizes.append(size)
        self.bounds.append(_UNKNOWN_TRIPS if bound is None else bound)

    def _merge_loops(self) -> None:
        """Merge adjacent loops if every operand is contiguous over both of them."""
        if any(operand.results is not None for operand in self.operands):
            return
        for outer in reversed(list(self.loops)):
            for inner in self.loops:
                if inner != outer and self._mergeable(outer, inner):
                    merged = self.bounds[outer] * self.bounds[inner]
                    self.sizes[inner] = self.bounds[inner] = merged
                    self.sizes[outer] = self.bounds[outer] = 1
                    self.loops.remove(outer)
                    break

    def _mergeable(self, outer: int, inner: int) -> bool:
        if {outer, inner} & self.in_panels:
            return False
        outer_size, size = self.sizes[outer], self.sizes[inner]
        if not isinstance(outer_size, int) or not isinstance(size, int):
            return False
        if self.reduction[outer] != self.reduction[inner]:
            return False
        for operand in [*self.operands, *([] if self.finish is None else self.finish.operands)]:
            far, near = operand.strides[outer], operand.strides[inner]
            if not isinstance(far, int) or not isinstance(near, int) or far != near * size:
                return False
        return True

    @property
    def in_panels(self) -> set[int]:
        """Dimensions along which an operand is stored in panels."""
        return {jump.loop for operand in self.operands for jump in operand.jumps}

    @property
    def lane_bits(self) -> int:
        """The width in bits of the widest element type among the operands."""
        return max(_bits(operand.element) for operand in self.operands)

    def describe(self, vector_bits: int, known: list[bool]) -> LoopNest:
        """Return the planner's view of the nest, in which loop numbers are positions in ``loops``.

        ``known`` tells per output whether its old content is a constant. ``vector_bits`` is the
        width of a vector register.
        """
        accesses = [operand.access(self.loops) for operand in self.operands]
        split = len(accesses) - self.outputs
        return LoopNest(
            loops=tuple(
                Loop(
                    self.bounds[d],
                    isinstance(self.sizes[d], int),
                    self.reduction[d],
                    d in self.in_panels,
                )
                for d in self.loops
            ),
            inputs=tuple(accesses[:split]),
            outputs=tuple(accesses[split:] if self.finish is None else self._final_accesses()),
            lanes=max(1, vector_bits // self.lane_bits),
            registers=30 if vector_bits >= 512 else 14,
            work=self.body.work,
            reads_init=any(
                self.body.uses(self.body.arguments - self.outputs + k) > 0 and not known[k]
                for k in range(self.outputs)
            ),
            vectorizable=self.body.vectorizable and self._has_vector_elements(),
            combinable=self.body.combiners is not None,
            line=max(1, 512 // self.lane_bits),
        )

    def _final_accesses(self) -> list[Access]:
        """Return the accesses of the epilogue's output, and before it of the result if it is kept.

        The nest must have an epilogue.
        """
        assert self.finish is not None
        kept = [self.operands[-1]] if self.finish.keeps else []
        return [operand.access(self.loops) for operand in [*kept, self.finish.operands[-1]]]

    def _has_vector_elements(self) -> bool:
        return all(_bits(operand.element) in (8, 16, 32, 64) for operand in self.operands)


def _bits(element: ir.Type) -> int:
    """Return an element type's width in bits; complex numbers and the like count as 128."""
    if isinstance(element, ir.IndexType):
        return 64
    return element.width if isinstance(element, ir.FloatType | ir.IntegerType) else 128


def _read_operand(value: ir.Value, affine_map: ir.AffineMap, dims: int) -> Operand:
    """Emit the flat view of an operand, and return it with its strides over ``dims`` dimensions."""
    if not is_buffer(value):
        return Operand(value, value.type, True, 0, [0] * dims, None, [])
    flat, offset, dim_strides = flatten(value)
    element = value.type.element_type
    forms = [_in_one_panel(result) for result in affine_map.results]
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        results = list(affine_map.results)
        return Operand(flat, element, False, offset, [], results, dim_strides)
    strides: list[Index] = [0] * dims
    for form, dim_stride in zip(known, dim_strides, strict=True):
        offset = add(offset, multiply(dim_stride, form.constant))
        for d, coefficient in sorted(form.coefficients.items()):
            strides[d] = add(strides[d], multiply(dim_stride, coefficient))
    jumps = _jumps(affine_map, dim_strides)
    return Operand(flat, element, False, offset, strides, None, dim_strides, jumps)


def _in_one_panel(expr: ir.AffineExpr) -> Linear | None:
    """Return the linear form of an indexing expression, valid within the first panel of its loop.

    None if the expression is neither linear nor an index in panels.
    """
    place = panel_index(expr)
    if place is None:
        return linear_form(expr)
    return Linear({} if place.is_number else {place.loop: 1}, 0)


def _jumps(affine_map: ir.AffineMap, dim_strides: Sequence[Index]) -> list[Jump]:
    """Return the additions to an address for whole panels, for each result that indexes panels.

    ``dim_strides`` has the buffer's stride for each result of the map.
    """
    places = [panel_index(result) for result in affine_map.results]
    return [
        Jump(place.loop, multiply(stride, 1 if place.is_number else -PANEL_WIDTH))
        for place, stride in zip(places, dim_strides, strict=True)
        if place is not None
    ]


def _read_finish(epilogue: Epilogue, dims: int) -> Finish:
    """Return an epilogue whose operands have strides over the ``dims`` dimensions of its reduction.

    ``epilogue`` has its own dimensions, which its field ``dims`` maps to those of the reduction.
    """
    generic = Structured(epilogue.operation.opview)
    operands: list[Operand] = []
    for value, affine_map in zip(generic.operands, generic.maps, strict=True):
        own = _read_operand(value, affine_map, len(epilogue.dims))
        strides: list[Index] = [0] * dims
        for dim, stride in zip(epilogue.dims, own.strides, strict=True):
            strides[dim] = stride
        operands.append(replace(own, strides=strides))
    body = Body(generic, contract=False)
    return Finish(body, operands, epilogue.argument, epilogue.keeps)


def flatten(value: Buffer) -> tuple[ir.Value, Index, Sequence[Index]]:
    """Emit a one-dimensional view of the underlying buffer of a memref.

    Returns the view, and the memref's offset and strides in it: ints if they are static.
    """
    kind = value.type
    base, start, sizes, strides = _metadata(value)
    extent = add(start, 1)
    for size, stride in zip(sizes, strides, strict=True):
        extent = add(extent, multiply(add(size, -1), stride))
    length = extent if isinstance(extent, int) else ir.ShapedType.get_dynamic_size()
    flat_type = ir.MemRefType.get([length], kind.element_type, None, kind.memory_space)
    dynamic_sizes = [] if isinstance(extent, int) else [extent]
    flat = memref.ReinterpretCastOp(flat_type, base, [], dynamic_sizes, [], [0], [length], [1])
    return flat.result, start, strides


def _metadata(value: Buffer) -> tuple[ir.Value, Index, Sequence[Index], Sequence[Index]]:
    """Emit or read a memref's metadata: its underlying buffer, offset, sizes and strides.

    Static numbers are ints.
    """
    kind = value.type
    strides, offset = kind.get_strides_and_offset()
    dynamic = ir.MemRefType.get_dynamic_stride_or_offset()
    if not isinstance(value.owner, ir.Block) and producer(value) == "memref.reinterpret_cast":
        return _cast_metadata(value.owner.operation)
    if kind.has_static_shape and dynamic not in (offset, *strides):
        return value, offset, list(kind.shape), strides
    base, start, *rest = memref.ExtractStridedMetadataOp(value).results
    return base, start, rest[: kind.rank], rest[kind.rank :]


def _cast_metadata(
    cast: ir.Operation,
) -> tuple[ir.Value, Index, Sequence[Index], Sequence[Index]]:
    """Return the buffer, offset, sizes and strides of a ``memref.reinterpret_cast``'s result.

    All come from the cast's operands and static attributes.
    """
    values = iter(list(cast.operands)[1:])
    dynamic = ir.ShapedType.get_dynamic_size()
    offsets, sizes, strides = (
        [
            next(values) if number == dynamic else number
            for number in ir.DenseI64ArrayAttr(cast.attributes[name])
        ]
        for name in ("static_offsets", "static_sizes", "static_strides")
    )
    return cast.operands[0], offsets[0], sizes, strides

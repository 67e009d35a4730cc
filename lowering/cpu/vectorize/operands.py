"""Describes operands of a loop nest as flat buffers, with addresses that depend on the loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, memref
from rammer_mlir.lowering.cpu.vectorize.tile import Access
from rammer_mlir.lowering.ir_walk import producer
from rammer_mlir.lowering.kernels.affine import Index, add, evaluate, multiply
from rammer_mlir.passes.ir.boxes import Linear, linear_form, panel_index
from rammer_mlir.passes.ir.structured import Buffer, is_buffer


@dataclass(frozen=True)
class Jump:
    """A correction of an operand's address at the boundaries of panels.

    The operand's strides give the addresses in the first panel of loop number ``loop``. For a point
    in a later panel, ``distance``, in elements, is added once for each preceding panel of ``width``
    points.
    """

    loop: int
    distance: Index
    width: int


@dataclass
class Operand:
    """An operand of a loop nest: a scalar, or a flat buffer.

    The address of an element in a flat buffer is ``offset`` plus, for each loop, its index times
    its stride, plus the ``jumps``.

    Attributes:
        value: the scalar, or the flat ``memref<?xT>``.
        element: the element type.
        is_scalar: whether the operand is a scalar.
        offset: the address in elements at the first iteration of all loops.
        strides: the stride in elements along each loop; empty if the indexing map is not linear.
        results: the expressions of an indexing map that is not linear; None for a linear map.
        dim_strides: the stride in elements of each dimension of the original memref.
        jumps: corrections of the address for an operand that is stored in panels.
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
        """Return the operand's stride along each of ``loops``; None for a stride that varies."""
        if self.results is not None:
            return Access(tuple(None for _ in loops))
        strides = [self.strides[loop] for loop in loops]
        return Access(tuple(s if isinstance(s, int) else None for s in strides))

    def invariant(self, loop: int) -> bool:
        """Return whether the address is the same in all iterations of a loop."""
        return self.results is None and self.strides[loop] == 0

    def address(self, dims: list[Index]) -> Index:
        """Emit the address, in elements, at the loop indices ``dims``.

        The operand must have an indexing map that is not linear.
        """
        assert self.results is not None, "strides tell the address"
        total = self.offset
        for stride, result in zip(self.dim_strides, self.results, strict=True):
            total = add(total, multiply(evaluate(result, dims), stride))
        return total


def read_operand(value: ir.Value, affine_map: ir.AffineMap, dims: int) -> Operand:
    """Return the operand of a nest that reads or writes ``value``.

    ``affine_map`` is the operand's indexing map, and ``dims`` the count of the nest's loops. If
    ``value`` is a memref, a flat view of it is emitted.
    """
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
    """Return the linear form of an indexing expression.

    If the expression indexes panels of a loop's iterations, the linear form holds for the first
    panel only. The result is None if the expression neither indexes panels nor is linear.
    """
    place = panel_index(expr)
    if place is None:
        return linear_form(expr)
    return Linear({} if place.is_number else {place.loop: 1}, 0)


def _jumps(affine_map: ir.AffineMap, dim_strides: Sequence[Index]) -> list[Jump]:
    """Return the corrections of an operand's address at the boundaries of panels.

    There is a jump for each result of the map that indexes panels. ``dim_strides`` has the buffer's
    stride for each result of the map.
    """
    places = [panel_index(result) for result in affine_map.results]
    return [
        Jump(place.loop, multiply(stride, 1 if place.is_number else -place.width), place.width)
        for place, stride in zip(places, dim_strides, strict=True)
        if place is not None
    ]


def flatten(value: Buffer) -> tuple[ir.Value, Index, Sequence[Index]]:
    """Emit a rank-1 view of a memref's underlying buffer, up to the memref's last element.

    Returns the view, the offset in elements of the memref's first element in the view, and the
    memref's strides in elements. A static offset or stride is an int.
    """
    kind = value.type
    base, start, sizes, strides = metadata(value)
    extent = add(start, 1)
    for size, stride in zip(sizes, strides, strict=True):
        extent = add(extent, multiply(add(size, -1), stride))
    length = extent if isinstance(extent, int) else ir.ShapedType.get_dynamic_size()
    flat_type = ir.MemRefType.get([length], kind.element_type, None, kind.memory_space)
    dynamic_sizes = [] if isinstance(extent, int) else [extent]
    flat = memref.ReinterpretCastOp(flat_type, base, [], dynamic_sizes, [], [0], [length], [1])
    return flat.result, start, strides


def metadata(value: Buffer) -> tuple[ir.Value, Index, Sequence[Index], Sequence[Index]]:
    """Return a memref's underlying buffer, offset, sizes and strides; static numbers are ints.

    Operations are emitted for dynamic numbers.
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


def element_bits(element: ir.Type) -> int:
    """Return an element type's width in bits; types such as complex numbers count as 128."""
    if isinstance(element, ir.IndexType):
        return 64
    return element.width if isinstance(element, ir.FloatType | ir.IntegerType) else 128

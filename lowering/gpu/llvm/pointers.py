"""Computes LLVM pointers to memref elements, for 32-bit or 64-bit indices.

Addresses have 64 bits even if the index type has 32, in which case
``memref.extract_aligned_pointer_as_index`` would truncate them. The aligned pointer is therefore
extracted from the memref's LLVM descriptor (see "Ranked MemRef Types" in MLIR's "LLVM IR Target"),
through a ``builtin.unrealized_conversion_cast`` that the later memref-to-LLVM conversion resolves.

An index is split into a dynamic and a constant part, and the constant part is added last. It then
folds into the immediate offset of the load, and unrolled accesses share the dynamic part. LLVM
could do this split only if it knew that no intermediate sum overflows when extended to 64 bits, but
its passes drop the no-wrap flags that say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rammer_mlir.bindings import arith, ir, llvm, memref
from rammer_mlir.lowering.gpu.llvm.index_parts import IndexParts, IndexSplitter, scaled, total
from rammer_mlir.lowering.gpu.temporaries import WORKGROUP
from rammer_mlir.lowering.ir_walk import producer, walk
from rammer_mlir.passes.ir.structured import Buffer, as_buffer

ADDRESS = "memref.extract_aligned_pointer_as_index"
_VIEW = "memref.reinterpret_cast"

_ADDRESS_BITS = 64
_ALIGNED_POINTER = 1
"""Position of the aligned pointer in the descriptor of a memref."""

_FURTHEST = 1 << 20
"""Largest constant part of an index, in elements, that is added after the dynamic part.

With a negative constant part, the dynamic part may exceed the buffer by as much, for which an
index has room.
"""

_DYNAMIC = -(1 << 31)
"""Marker of a dynamic operand among the constant indices of ``llvm.getelementptr``."""


class Pointers:
    """Emits pointers to memref elements, in a module whose indices have ``index_bits`` bits."""

    def __init__(self, index_bits: int) -> None:
        self._index = ir.IntegerType.get_signless(index_bits)
        self._split = IndexSplitter().split

    def buffer(self, buffer: Buffer) -> ir.Value:
        """Emit the base pointer of a memref, without the memref's offset."""
        kind, bits = _pointer_type(buffer.type), self._index
        name = str(kind).removeprefix("!llvm.")
        sizes = f", array<{buffer.type.rank} x {bits}>" * 2 if buffer.type.rank else ""
        descriptor = ir.Type.parse(f"!llvm.struct<({name}, {name}, {bits}{sizes})>")
        cast = ir.Operation.create(
            "builtin.unrealized_conversion_cast", results=[descriptor], operands=[buffer]
        )
        return llvm.extractvalue(kind, cast.result, [_ALIGNED_POINTER])

    def element(self, buffer: Buffer, indices: Sequence[ir.Value]) -> ir.Value:
        """Emit a pointer to the element of a memref at the given indices.

        The constant part of the element's offset is added last. The pointer without the constant
        part may be outside of the buffer; only the final pointer is known to be inside the buffer.
        """
        buffer, begin, strides = self._layout(buffer)
        steps = [self._step(*pair) for pair in zip(indices, strides, strict=True)]
        place = total([begin, *steps])
        pointer, element = self.buffer(buffer), buffer.type.element_type
        if abs(place.constant) > _FURTHEST:
            return self._far(pointer, element, place)
        if place.rest is not None:
            pointer = self._behind(pointer, element, [self._converted(place.rest)], _DYNAMIC)
        return self._behind(pointer, element, [], place.constant) if place.constant else pointer

    def _far(self, pointer: ir.Value, element: ir.Type, place: IndexParts) -> ir.Value:
        """Emit a pointer to the element at index ``place``, from the sum of the index's two parts.

        Adding the parts first is necessary if the constant part is too large for the immediate
        offset of a load.
        """
        at = arith.constant(ir.IndexType.get(), place.constant)
        if place.rest is not None:
            at = arith.addi(place.rest, at)
        return self._behind(pointer, element, [self._converted(at)], _DYNAMIC)

    def _layout(self, buffer: Buffer) -> tuple[Buffer, IndexParts, list[int | ir.Value]]:
        """Return a memref with the base pointer of ``buffer``; also its offset and strides.

        Offset and strides are those of ``buffer``, in elements; the offset is split into a dynamic
        and a constant part. The returned memref is ``buffer`` itself or, if ``buffer`` is a
        ``memref.reinterpret_cast`` with a dynamic offset and static strides, the source of this
        cast.
        """
        strides, offset = buffer.type.get_strides_and_offset()
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        if dynamic in strides or offset == dynamic:
            if producer(buffer) == _VIEW and dynamic not in strides:
                owner: Any = buffer.owner  # the bindings' classes of dialects have no types
                view = owner.opview
                return view.source, self._split(view.offsets[0]), list(strides)
            found = memref.ExtractStridedMetadataOp(buffer)
            return buffer, self._split(found.offset), list(found.strides)
        return buffer, IndexParts(None, offset), list(strides)

    def _step(self, index: ir.Value, stride: int | ir.Value) -> IndexParts:
        if isinstance(stride, int):
            return scaled(self._split(index), stride)
        return IndexParts(arith.muli(index, stride), 0)

    def _converted(self, index: ir.Value) -> ir.Value:
        return arith.index_cast(self._index, index)

    def _behind(
        self, pointer: ir.Value, element: ir.Type, indices: list[ir.Value], constant: int
    ) -> ir.Value:
        return llvm.getelementptr(pointer.type, pointer, indices, [constant], element, 0)


def keep_addresses_whole(module: ir.Module, index_bits: int) -> None:
    """Compute addresses as i64 instead of as an index that is cast to i64.

    An index may have fewer bits than an address, and would truncate the address.

    Args:
        module: a module in which every use of an address of type index is a cast to i64
            (``is_cast_of_address``).
        index_bits: width of an index in the module.
    """
    pointers = Pointers(index_bits)
    for operation in walk(module.operation):
        if operation.name != ADDRESS:
            continue
        with ir.InsertionPoint(operation), operation.location:
            pointer = pointers.buffer(as_buffer(operation.operands[0]))
            address = llvm.ptrtoint(ir.IntegerType.get_signless(_ADDRESS_BITS), pointer)
        for cast in [use.owner.operation for use in operation.result.uses]:
            cast.result.replace_all_uses_with(address)
            cast.erase()
        operation.erase()


def is_cast_of_address(use: ir.OpOperand) -> bool:
    """Return whether a use of an address is a cast from index to i64."""
    user = use.owner.operation
    if user.name != "arith.index_cast" or not isinstance(user.result.type, ir.IntegerType):
        return False
    return user.result.type.width == _ADDRESS_BITS


def _pointer_type(kind: ir.MemRefType) -> ir.Type:
    """Return the type of a pointer into a memref."""
    is_shared = str(kind.memory_space) == WORKGROUP
    return ir.Type.parse("!llvm.ptr<3>" if is_shared else "!llvm.ptr")

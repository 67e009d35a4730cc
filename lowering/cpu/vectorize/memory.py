"""Emits loads and stores of a register: contiguous, masked, strided, gathered or scattered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rammer_mlir.bindings import arith, ir, memref, vector
from rammer_mlir.lowering.cpu.vectorize.cost import MAX_STRIDE
from rammer_mlir.lowering.cpu.vectorize.operands import Operand, element_bits
from rammer_mlir.lowering.cpu.vectorize.shuffle import pick_strided
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, multiply

_PIECES_BITS = 256
"""Widest register of which a part is stored in several pieces instead of by a masked store.

On AMD's processors, a masked store of AVX2 is slow: a copy of rows of 13 elements took 127
microseconds with masked stores and 38 with pieces (AMD EPYC, 2026-11-29). Wider registers are
those of AVX-512, whose masked stores are fast.
"""

_SHUFFLED_LANES = 8  # with fewer lanes, loads of single elements are cheaper than masked loads


@dataclass(frozen=True)
class Mask:
    """A mask of the first ``count`` lanes of a register; ``value`` is the emitted vector of i1.

    If all lanes are valid, ``value`` and ``count`` are None.
    """

    count: Index | None
    value: ir.Value | None


_Emitted = TypeVar("_Emitted")


@dataclass
class Scope:
    """Memo of values already emitted in the innermost loop body of the generated code.

    It lets several uses share an address, a mask or a load. A key describes the computed value.
    """

    # Each key belongs to a single caller of `once`, which knows the type of its values.
    values: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])

    def once(self, key: Hashable, emit: Callable[[], _Emitted]) -> _Emitted:
        """Return the value for ``key``; at the first use of the key, call ``emit`` to emit it."""
        if key not in self.values:
            self.values[key] = emit()
        return self.values[key]


def full_mask(lanes: int) -> ir.Value:
    """Emit a mask of ``lanes`` lanes, all of them valid."""
    kind = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.BoolAttr.get(True)))


def make_mask(lanes: int, count: Index | None) -> Mask:
    """Emit the mask of the first ``count`` lanes of a register of ``lanes`` lanes.

    ``count`` may exceed ``lanes``. None stands for all lanes, for which nothing is emitted.
    """
    if count is None or (isinstance(count, int) and count >= lanes):
        return Mask(None, None)
    kind = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    if isinstance(count, int):
        return Mask(count, vector.constant_mask(kind, [max(0, count)]))
    return Mask(count, vector.create_mask(kind, [count]))


def index_vector(lanes: int, stride: Index) -> ir.Value:
    """Emit the vector of ``lanes`` offsets ``0, stride, 2 * stride, ...``."""
    if isinstance(stride, int):
        element = ir.IntegerType.get_signless(32)
        kind = ir.VectorType.get([lanes], element)
        values = [ir.IntegerAttr.get(element, lane * stride) for lane in range(lanes)]
        return arith.constant(kind, ir.DenseElementsAttr.get(values, type=kind))
    return as_value(multiply(_lane_numbers(lanes), stride))


def lane_indices(base: Index, lanes: int) -> ir.Value:
    """Emit the ``index`` vector base, base + 1, ..., base + lanes - 1."""
    return as_value(add(_lane_numbers(lanes), base))


def _lane_numbers(lanes: int) -> ir.Value:
    return vector.step(ir.VectorType.get([lanes], ir.IndexType.get()))


def load(operand: Operand, address: Index, stride: Index, lanes: int, mask: Mask) -> ir.Value:
    """Emit the load of a register; return a vector, or a scalar for a stride of 0.

    Lane n is ``n * stride`` elements after ``address``; lanes outside of ``mask`` are not read.
    """
    if isinstance(stride, int) and stride == 0:
        return memref.load(operand.value, [as_value(address)])
    if isinstance(stride, int) and stride == 1:
        return _load_contiguous(operand.value, [as_value(address)], lanes, mask)
    if isinstance(stride, int) and 1 < stride <= MAX_STRIDE and lanes >= _SHUFFLED_LANES:
        return _load_strided(operand, address, stride, lanes, mask)
    return gather(operand, address, index_vector(lanes, stride), lanes, mask)


def load_element(operands: Sequence[ir.Value], lanes: int, mask: Mask) -> ir.Value:
    """Emit ``memref.load`` on a buffer and its indices; return a scalar or a vector.

    ``operands`` are the buffer and its indices. If the last index is a vector, it must be a result
    of ``lane_indices``: contiguous elements of the buffer's last dimension are then loaded, and
    lanes outside of ``mask`` are not read.
    """
    buffer, *indices = operands
    if not indices or not isinstance(indices[-1].type, ir.VectorType):
        return memref.load(buffer, indices)
    indices[-1] = vector.extract(indices[-1], [], [0])
    return _load_contiguous(buffer, indices, lanes, mask)


def _load_contiguous(
    buffer: ir.Value, first: Sequence[ir.Value], lanes: int, mask: Mask
) -> ir.Value:
    """Emit the load of a register from contiguous memory; ``first`` are the indices of lane 0."""
    kind = ir.VectorType.get([lanes], ir.MemRefType(buffer.type).element_type)
    if mask.value is None:
        return vector.load(kind, buffer, first)
    return vector.maskedload(kind, buffer, first, mask.value, zeros(kind))


def _load_strided(
    operand: Operand, address: Index, stride: int, lanes: int, mask: Mask
) -> ir.Value:
    """Emit contiguous loads and shuffles that load every ``stride``-th element from ``address`` on.

    Returns a register of ``lanes`` elements. No element after the last valid lane is read.
    """
    count = lanes if mask.count is None else mask.count
    needed = add(multiply(add(count, -1), stride), 1)
    parts: list[ir.Value] = []
    for number in range(stride):
        first = number * lanes
        part_mask = make_mask(lanes, add(needed, -first))
        parts.append(load(operand, add(address, first), 1, lanes, part_mask))
    return pick_strided(parts, stride, lanes)


def gather(operand: Operand, start: Index, indices: ir.Value, lanes: int, mask: Mask) -> ir.Value:
    """Emit a gather of the elements at addresses ``start + indices``; masked-off lanes are 0."""
    kind = ir.VectorType.get([lanes], operand.element)
    enabled = full_mask(lanes) if mask.value is None else mask.value
    return vector.gather(kind, operand.value, [as_value(start)], indices, enabled, zeros(kind))


def store(
    operand: Operand, address: Index, stride: Index, lanes: int, mask: Mask, value: ir.Value
) -> None:
    """Emit the store of a register whose lanes are ``stride`` elements apart in memory.

    Lane 0 is at ``address``. For a stride of 0, ``value`` is a scalar. Lanes outside of ``mask``
    are not written.
    """
    start = [as_value(address)]
    if isinstance(stride, int) and stride == 0:
        memref.store(value, operand.value, start)
    elif not isinstance(stride, int) or stride != 1:
        scatter(operand, address, index_vector(lanes, stride), lanes, mask, value)
    elif mask.value is None:
        vector.store(value, operand.value, start)
    elif isinstance(mask.count, int) and (mask.count == 1 or _is_narrow(value)):
        # For one lane, LLVM would make a masked store a scalar store, but of a truncated integer
        # before its truncation: an i8 that was an i32 would be stored as four bytes.
        _store_pieces(operand, address, mask.count, value)
    else:
        vector.maskedstore(operand.value, start, mask.value, value)


def _is_narrow(value: ir.Value) -> bool:
    """Return whether a register has at most ``_PIECES_BITS`` bits."""
    kind = ir.VectorType(value.type)
    return kind.shape[0] * element_bits(kind.element_type) <= _PIECES_BITS


def _store_pieces(operand: Operand, address: Index, count: int, value: ir.Value) -> None:
    """Emit contiguous stores of the first ``count`` lanes of a register.

    The stores have descending powers of two as their counts of elements, such as 4, 2 and 1.
    """
    kind = ir.VectorType(value.type)
    begin = 0
    while begin < count:
        size = 1 << ((count - begin).bit_length() - 1)
        start = [as_value(add(address, begin))]
        if size == 1:
            memref.store(vector.extract(value, [], [begin]), operand.value, start)
        else:
            piece = ir.VectorType.get([size], kind.element_type)
            part = vector.extract_strided_slice(piece, value, [begin], [size], [1])
            vector.store(part, operand.value, start)
        begin += size


def scatter(
    operand: Operand, start: Index, indices: ir.Value, lanes: int, mask: Mask, value: ir.Value
) -> None:
    """Emit a scatter of a register's valid lanes to the addresses ``start + indices``.

    Addresses count elements of the operand.
    """
    enabled = full_mask(lanes) if mask.value is None else mask.value
    vector.scatter(None, operand.value, [as_value(start)], indices, enabled, value)


def zeros(kind: ir.VectorType) -> ir.Value:
    """Emit a vector of zeros."""
    element = kind.element_type
    zero = (
        ir.FloatAttr.get(element, 0.0)
        if isinstance(element, ir.FloatType)
        else ir.IntegerAttr.get(element, 0)
    )
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, zero))


def broadcast(value: ir.Value, lanes: int) -> ir.Value:
    """Emit the broadcast of a scalar to all lanes; vectors are returned unchanged."""
    if isinstance(value.type, ir.VectorType):
        return value
    return vector.broadcast(ir.VectorType.get([lanes], value.type), value)

"""Selects the largest elements of rows by their bits, without sorting the rows.

The ``count``-th largest element of a row is found from its most significant bits to its least, two
bits in each step: a step counts how many elements are at least as large as each of three candidates
(radix selection; Knuth, "The Art of Computer Programming", volume 3, section 5.2.5, sorts by digits
in the same way). A step reads a row once, so that the time does not depend on ``count``.
"""

from __future__ import annotations

import numpy as np

from rammer_mlir.frontends.onnx.builders.cumulative import scan
from rammer_mlir.frontends.onnx.builders.indexing import here
from rammer_mlir.frontends.onnx.builders.structured import fetch, indexed, pointwise, structured
from rammer_mlir.frontends.onnx.builders.values import Tensor, full
from rammer_mlir.passes.ir.byte_formats import integer_bits
from rammer_mlir.passes.ir.scalar import (
    INT32,
    INT64,
    DType,
    Scalar,
    integer_limits,
    is_float,
    is_signed,
    literal,
)

_INTEGERS: dict[int, DType] = {2: np.dtype(np.int16), 4: INT32, 8: INT64}
"""The signed integer type with the width of a float type, by the width in bytes."""

_UINT64 = np.dtype(np.uint64)

_DIGIT_BITS = 2
"""Number of bits of a threshold that a step determines."""


def sort_keys(rows: Tensor, largest: bool) -> tuple[Tensor, int]:
    """Emit an integer for each element, which is larger the earlier the element is in sorted order.

    The order is descending if ``largest``, else ascending. NaN exceeds all numbers; zeros of both
    signs are equal.

    Returns:
        The keys, int32 or int64, and the number of bits that two's complement needs for them.
    """
    dtype = rows.dtype
    if is_float(dtype):
        bits = 8 * dtype.itemsize
    else:
        bits = min(integer_bits(dtype) + (0 if is_signed(dtype) else 1), 64)
    wide = INT64 if bits > 32 else INT32

    def key(x: Scalar) -> Scalar:
        found = _float_key(x) if is_float(dtype) else _integer_key(x, wide)
        found = found.cast(wide)
        return found if largest else ~found

    return pointwise(key, rows, dtype=wide), bits


def _float_key(x: Scalar) -> Scalar:
    """Emit an integer of the float's width, such that larger floats have larger integers.

    NaN has the largest integer; zeros of both signs have the integer 0.
    """
    kind = _INTEGERS[x.dtype.itemsize]
    most = literal(integer_limits(kind)[1], kind)
    bits = x.bitcast(kind)
    # Floats are sign and magnitude: of two negative numbers, the one with smaller bits is larger.
    ordered = bits.compare("lt", 0).select(bits ^ most, bits)
    ordered = x.compare("eq", 0).select(literal(0, kind), ordered)
    return x.compare("ne", x).select(most, ordered)


def _integer_key(x: Scalar, wide: DType) -> Scalar:
    if x.dtype == _UINT64:
        return (x ^ (1 << 63)).bitcast(INT64)
    return x.cast(wide)


def largest_positions(keys: Tensor, bits: int, count: int) -> Tensor:
    """Emit the positions of the ``count`` largest keys of each row, in ascending order, as int64.

    Of the keys that equal the smallest selected key, those at the lowest positions are selected; a
    second search finds them by the bits of their positions. ``count`` is from 1 to the length of a
    row.

    Args:
        keys: integers [*lead, length].
        bits: number of bits that two's complement needs for the keys.
        count: number of keys to select.
    """
    lead, length = keys.shape[:-1], keys.shape[-1]
    batch = list(range(len(lead)))
    position = len(lead)
    wanted = full(lead, count, INT32)
    threshold = _threshold(keys, bits, wanted)

    def without_larger(key: Scalar, limit: Scalar, left: Scalar) -> Scalar:
        return left - key.compare("gt", limit).cast(INT32)

    inputs = [(keys, range(keys.rank)), (threshold, batch)]
    ties_wanted = structured(keys.shape, 1, inputs, (wanted, batch), without_larger)

    def tie_key(key: Scalar, limit: Scalar) -> Scalar:
        place = literal(0, INT32) - here(position).cast(INT32)
        return key.compare("eq", limit).select(place, literal(-length, INT32))

    ties = pointwise(tie_key, keys, (threshold, batch), dtype=INT32, shape=keys.shape)
    last_tie = _threshold(ties, length.bit_length() + 1, ties_wanted)

    def is_selected(key: Scalar, limit: Scalar, tie: Scalar, last: Scalar) -> Scalar:
        return (key.compare("gt", limit) | tie.compare("ge", last)).cast(INT32)

    selected = pointwise(
        is_selected, keys, (threshold, batch), ties, (last_tie, batch),
        dtype=INT32, shape=keys.shape,
    )  # fmt: skip
    selected_up_to = scan(selected, position, lambda x, y: x + y, 0)

    def find(place: list[Scalar]) -> Scalar:
        """Emit the position of a selected key in its row, found by a binary search.

        The search reads how many keys are selected up to each position. ``place`` has the indices
        of the row, then the key's index among the selected keys of the row.
        """
        *row, number = place
        passed = literal(0, INT64)
        for exponent in reversed(range(length.bit_length())):
            next_passed = passed + (1 << exponent)
            at = next_passed.minimum(length) - 1
            few = fetch(selected_up_to, [*row, at]).cast(INT64).compare("le", number)
            inside = next_passed.compare("le", length)
            passed = (few & inside).select(next_passed, passed)
        return passed.minimum(length - 1)

    return indexed([*lead, count], INT64, find)


def _threshold(keys: Tensor, bits: int, wanted: Tensor) -> Tensor:
    """Emit, for each row, the key of the wanted rank; rank 1 is the row's largest key.

    Args:
        keys: integers [*lead, length].
        bits: number of bits that two's complement needs for the keys.
        wanted: the wanted rank of each row, at least 1, as int32.
    """
    lead, length = keys.shape[:-1], keys.shape[-1]
    batch = list(range(len(lead)))
    found = full(lead, -(1 << (bits - 1)), keys.dtype)
    for low in reversed(range(0, bits, _DIGIT_BITS)):
        size = min(_DIGIT_BITS, bits - low)

        def is_at_least(key: Scalar, base: Scalar, total: Scalar, low: int = low) -> Scalar:
            digit = (here(len(lead)) + 1).cast(keys.dtype)
            candidate = base + digit.shift_left(low)
            return total + key.compare("ge", candidate).cast(INT32)

        domain = [*lead, (1 << size) - 1, length]
        reads = [(keys, [*batch, len(lead) + 1]), (found, batch)]
        out = (full(domain[:-1], 0, INT32), range(len(lead) + 1))
        counts = structured(domain, 1, reads, out, is_at_least)

        def advance(number: Scalar, rank: Scalar, base: Scalar, low: int = low) -> Scalar:
            return number.compare("ge", rank).select(base + (1 << low), base)

        reads = [(counts, range(counts.rank)), (wanted, batch)]
        found = structured(counts.shape, 1, reads, (found, batch), advance)
    return found

"""Pads strides of shared memory to avoid bank conflicts.

Shared memory lies in 32 banks of 4 bytes. Lanes of a warp that access different addresses of one
bank at the same time are served one after the other, so rows are padded until the elements that
lanes access together lie in different banks (CUDA C++ programming guide, shared memory).
"""

from __future__ import annotations

BANK_CYCLE = 128
"""Distance in bytes of addresses in the same bank: 32 banks of 4 bytes."""


def padded_strides(
    box: tuple[int, ...], element_bytes: int, access_bytes: int
) -> tuple[tuple[int, ...], int]:
    """Return strides that align a box's rows and place them in different memory banks.

    Args:
        box: elements along each dimension.
        element_bytes: size of an element.
        access_bytes: bytes of the widest access, to which rows are aligned.

    Returns:
        The strides in elements, and the number of elements that the box then occupies.
    """
    unit = access_bytes // element_bytes
    strides = [1]
    for position, size in enumerate(reversed(box[1:])):
        stride = strides[0] * size
        if position == 0:
            stride = round_up(size, unit)
            stride += unit if stride * element_bytes % BANK_CYCLE == 0 else 0
            # `ldmatrix` reads rows of 16 bytes, eight at a time, which must lie in different banks.
            stride += unit if element_bytes == 2 and stride // unit % 2 == 0 else 0
        strides.insert(0, stride)
    return tuple(strides), round_up(strides[0] * box[0], unit)


def padded_side(side: int) -> int:
    """Return the row stride, in elements, of a square array in shared memory with ``side`` columns.

    Each row is padded by an element, so that accesses to a column have no bank conflicts.
    """
    return side + 1


def round_up(size: int, unit: int) -> int:
    """Return the least multiple of ``unit`` that is not below ``size``."""
    return -(-size // unit) * unit

"""Tests that padded strides put elements of shared memory into different banks.

The elements are those that the lanes of a warp access together.
"""

from __future__ import annotations

import pytest

from rammer_mlir.lowering.gpu.bank_conflicts import (
    BANK_CYCLE,
    padded_side,
    padded_strides,
    round_up,
)

_ACCESS = 16


@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8])
def test_rows_are_aligned_and_begin_in_different_banks(element_bytes: int) -> None:
    for width in range(1, 200):
        strides, elements = padded_strides((3, 5, width), element_bytes, _ACCESS)
        row = strides[1] * element_bytes
        assert row >= width * element_bytes and row % _ACCESS == 0 and row % BANK_CYCLE
        assert strides == (5 * strides[1], strides[1], 1) and elements >= 15 * width


def test_eight_rows_of_ldmatrix_lie_in_different_banks() -> None:
    for width in range(8, 200):
        strides, _ = padded_strides((8, width), 2, _ACCESS)
        assert len({row * strides[0] * 2 % BANK_CYCLE for row in range(8)}) == 8


def test_columns_of_a_square_lie_in_different_banks() -> None:
    assert len({lane * padded_side(32) * 4 % BANK_CYCLE for lane in range(32)}) == 32


def test_rounding() -> None:
    assert [round_up(size, 4) for size in (0, 1, 4, 5)] == [0, 4, 4, 8]

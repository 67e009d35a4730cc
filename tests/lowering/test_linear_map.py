"""Tests that products of a constant matrix and a vector are right, and take few operations.

The matrices are random, or those of Winograd's algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from rammer_mlir.lowering.cpu.vectorize.linear_map import linear_map
from rammer_mlir.passes.winograd.filtering import minimal_filtering


@dataclass
class Numbers:
    """Arithmetic on floats in place of emitted code, which records the name of each operation.

    The recorded names, such as "add" or "multiply-add", are in ``done``.
    """

    done: list[str] = field(default_factory=list[str])

    def add(self, left: float, right: float) -> float:
        self.done.append("add")
        return left + right

    def subtract(self, left: float, right: float) -> float:
        self.done.append("subtract")
        return left - right

    def scale(self, factor: float, value: float) -> float:
        self.done.append("scale")
        return factor * value

    def multiply_add(self, factor: float, value: float, addend: float) -> float:
        self.done.append("multiply-add")
        return factor * value + addend


@pytest.mark.parametrize("seed", range(200))
def test_random_matrices(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    rows, columns = numbers.integers(1, 6, 2)
    matrix = numbers.integers(-2, 3, (rows, columns)).astype(float)
    matrix[np.arange(rows), numbers.integers(0, columns, rows)] = numbers.choice((-2, -1, 1, 2))
    if rows > 1 and seed % 2:  # rows and columns that share sums are rare by themselves
        matrix[-1] = matrix[0] * numbers.choice((-1, 1), columns)
    values = numbers.integers(-99, 99, columns).astype(float)
    found = linear_map(matrix.tolist(), list(values), Numbers())
    np.testing.assert_array_equal(found, matrix @ values)


@pytest.mark.parametrize(
    ("outputs", "name", "most"),
    [(2, "data", 4), (2, "inverse", 4), (4, "data", 14), (4, "inverse", 10)],
)
def test_transforms_take_few_operations(outputs: int, name: str, most: int) -> None:
    numbers = Numbers()
    matrix = getattr(minimal_filtering(outputs, 3), name)
    values = list(np.random.default_rng(1).integers(-99, 99, len(matrix[0])).astype(float))
    np.testing.assert_array_equal(linear_map(matrix, values, numbers), np.array(matrix) @ values)
    assert len(numbers.done) <= most

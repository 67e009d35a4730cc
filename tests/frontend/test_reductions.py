"""Tests that reductions of scalars are right, and activations have their default attributes."""

from __future__ import annotations

import numpy as np
import pytest
from node_checks import Array, check_node, floats

REDUCTIONS = (
    "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare",
)  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("value", [np.array(1.75, np.float32), np.array(3, np.int64)])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_scalar_is_reduced_to_one(reduction: str, value: Array, keepdims: int) -> None:
    check_node(f"Reduce{reduction}", [value], keepdims=keepdims)


@pytest.mark.parametrize("operator", ["Selu", "HardSigmoid"])
def test_defaults_are_the_schemas_float32(operator: str) -> None:
    check_node(operator, [floats(50).astype(np.float64)], tolerance=1e-12)

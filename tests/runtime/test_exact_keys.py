"""Tests that exact keys tell apart values that Python's equality does not."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rammer_mlir.support.exact_key import exact_key

DIFFERENT = [
    *(1, 1.0, True, 1 + 0j, np.float32(1), np.int32(1), np.int64(1), "1", None),
    *((1,), (1.0,), (True,), ((1,),), ((1.0,),), frozenset({1}), frozenset({1.0})),
    *(0.0, -0.0, complex(0.0, -0.0), (0.0,), (-0.0,), np.float32(0.0), np.float32(-0.0)),
]


def test_keys_of_different_types_and_values_differ() -> None:
    keys = [exact_key(value) for value in DIFFERENT]
    assert all(one != other for one, other in combinations(keys, 2))


def test_keys_of_equal_values_are_equal() -> None:
    assert [exact_key(value) for value in DIFFERENT] == [exact_key(value) for value in DIFFERENT]
    assert len({exact_key((float("nan"), np.float32("nan"))) for _ in range(3)}) == 1

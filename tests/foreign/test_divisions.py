"""Integer divisions cannot end the process, whatever the inputs hold."""

from __future__ import annotations

import numpy as np
import pytest

import rammer_mlir

LEAST = -(2**31)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("divsi", [7, LEAST, -3]),
        ("remsi", [0, 0, -1]),
        ("floordivsi", [7, LEAST, -4]),
        ("ceildivsi", [7, LEAST, -3]),
        ("divui", [7, 0, 2**31 - 4]),
        ("remui", [0, LEAST, 1]),
        ("ceildivui", [7, 1, 2**31 - 3]),
    ],
)
def test_divisors_that_would_trap(name: str, expected: list[int]) -> None:
    kind = "tensor<3xi32>"
    text = (
        f"func.func @f(%a: {kind}, %b: {kind}) -> {kind} {{\n"
        f"  %r = arith.{name} %a, %b : {kind}\n  return %r : {kind}\n}}\n"
    )
    a, b = np.array([7, LEAST, -7], np.int32), np.array([0, -1, 2], np.int32)
    with rammer_mlir.compile(text, cache=False) as exe:
        found = exe.run({"arg0": a, "arg1": b})["result0"]
    np.testing.assert_array_equal(found, np.array(expected).astype(np.int32))

"""Tests that ``stablehlo.select_and_scatter`` gives the results of a loop over all windows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.errors import RammerError

Array = NDArray[Any]
Padding = Sequence[tuple[int, int]]

COMPARE = {"GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less}


def expected(
    operand: Array, source: Array, window: Sequence[int], strides: Sequence[int], padding: Padding,
    direction: str, initial: float,
) -> Array:  # fmt: skip
    """Return the result that StableHLO's specification defines, computed window by window.

    Args:
        operand: the array in which an element of each window is selected.
        source: a number for each window, which is added at the selected element.
        window: sizes of a window.
        strides: distances of adjacent windows.
        padding: counts of elements before and after the operand in each dimension.
        direction: the comparison by which an element is preferred to another, such as "GE".
        initial: value of the result where nothing is added.
    """
    found = np.full(operand.shape, initial, operand.dtype)
    for at in np.ndindex(source.shape):
        selected: tuple[int, ...] | None = None
        for offset in product(*map(range, window)):
            place = tuple(
                a * s + o - low
                for a, s, o, (low, _) in zip(at, strides, offset, padding, strict=True)
            )
            if any(not 0 <= p < size for p, size in zip(place, operand.shape, strict=True)):
                continue
            if selected is None or not COMPARE[direction](operand[selected], operand[place]):
                selected = place
        if selected is not None:
            found[selected] += source[at]
    return found


def text(
    sizes: Sequence[int], counts: Sequence[int], window: Sequence[int], strides: Sequence[int],
    padding: Padding, element: str, direction: str, combine: str = "add",
) -> str:  # fmt: skip
    """Return the text of a function with one ``select_and_scatter``.

    Args:
        sizes: shape of the operand.
        counts: number of windows in each dimension, the shape of the source.
        window: sizes of a window.
        strides: distances of adjacent windows.
        padding: counts of elements before and after the operand in each dimension.
        element: element type.
        direction: the comparison by which an element is preferred to another, such as "GE".
        combine: operation of StableHLO that combines the numbers at an element.
    """
    operand, source = (
        f"tensor<{'x'.join(map(str, shape))}x{element}>" for shape in (sizes, counts)
    )
    scalar = f"tensor<{element}>"
    pads = ", ".join(f"[{low}, {high}]" for low, high in padding)
    return f"""
    func.func @f(%a: {operand}, %s: {source}, %i: {scalar}) -> {operand} {{
      %r = "stablehlo.select_and_scatter"(%a, %s, %i) ({{
        ^bb0(%x: {scalar}, %y: {scalar}):
          %c = stablehlo.compare {direction}, %x, %y : ({scalar}, {scalar}) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }}, {{
        ^bb0(%x: {scalar}, %y: {scalar}):
          %t = stablehlo.{combine} %x, %y : {scalar}
          stablehlo.return %t : {scalar}
      }}) {{
        window_dimensions = array<i64: {", ".join(map(str, window))}>,
        window_strides = array<i64: {", ".join(map(str, strides))}>,
        padding = dense<[{pads}]> : tensor<{len(sizes)}x2xi64>
      }} : ({operand}, {source}, {scalar}) -> {operand}
      return %r : {operand}
    }}"""


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize(
    ("sizes", "window", "strides", "padding", "direction"),
    [
        ((6, 4), (2, 2), (2, 2), ((0, 0), (0, 0)), "GE"),
        ((7, 5), (3, 3), (2, 2), ((1, 1), (1, 1)), "GE"),
        ((7, 5), (3, 2), (1, 1), ((2, 0), (0, 1)), "GT"),
        ((2, 9, 3), (1, 2, 1), (1, 3, 1), ((0, 0), (0, 2), (0, 0)), "LE"),
        ((5,), (2,), (4,), ((0, 0),), "LT"),
        ((3,), (2,), (1,), ((3, 2),), "GE"),
    ],
)
def test_select_and_scatter(
    sizes: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], padding: Padding,
    direction: str, element: str,
) -> None:  # fmt: skip
    random = np.random.default_rng(0)
    counts = tuple(
        (size + low + high - extent) // stride + 1
        for size, extent, stride, (low, high) in zip(sizes, window, strides, padding, strict=True)
    )
    dtype = np.float32 if element == "f32" else np.int32
    operand = random.integers(-3, 3, sizes).astype(dtype)  # with equal elements
    source = random.integers(1, 99, counts).astype(dtype)
    given = text(sizes, counts, window, strides, padding, element, direction)
    with rammer_mlir.compile(given, cache=False) as exe:
        found = exe.run({"arg0": operand, "arg1": source, "arg2": np.array(2, dtype)})["result0"]
    wanted = expected(operand, source, window, strides, padding, direction, 2)
    np.testing.assert_array_equal(found, wanted)


def test_other_functions_are_refused() -> None:
    given = text((6, 4), (4, 2), (2, 2), (2, 2), ((1, 1), (0, 0)), "f32", "GE", "multiply")
    with pytest.raises(RammerError, match=r"'stablehlo.select_and_scatter': .* compares elements"):
        rammer_mlir.compile(given, cache=False)

"""Tests that reductions shared by several lanes give NumPy's results.

All combiners are tested, on all element types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mapped_kernels import compile_mapped
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.lowering.ir_walk import walk

THREADS = 128
ROWS, COLUMNS = 3, 100

Array = NDArray[Any]

DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "i1": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    """A test case: an rKernel that reduces rows of numbers of one type by one operation.

    Attributes:
        combiner: the operation of the `arith` dialect.
        element: type of the numbers and the results.
        function: the same operation in NumPy.
        unsigned: whether NumPy computes with unsigned integers.
    """

    combiner: str
    element: str
    function: np.ufunc
    unsigned: bool = False

    def __str__(self) -> str:
        return f"{self.combiner}-{self.element}"

    @property
    def dtype(self) -> Any:
        """NumPy's type of an element in memory."""
        dtype = np.dtype(DTYPES[self.element])
        return np.dtype(f"u{dtype.itemsize}") if self.unsigned else dtype

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return "f" in self.element

    @property
    def types(self) -> list[str]:
        """The memref types of the rows and of the output, as text."""
        return [f"memref<{ROWS}x{COLUMNS}x{self.element}>", f"memref<{ROWS}x{self.element}>"]

    @property
    def source(self) -> str:
        """MLIR text of the rKernel."""
        rows, results = self.types
        return f"""
func.func @kernel(%id: index, %x: {rows}, %y: {results}) {{
  linalg.generic {{indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
                  iterator_types = ["parallel", "reduction"]}}
      ins(%x : {rows}) outs(%y : {results}) {{
  ^bb0(%v: {self.element}, %c: {self.element}):
    %r = arith.{self.combiner} %c, %v : {self.element}
    linalg.yield %r : {self.element}
  }}
  return
}}"""

    def numbers(self, rng: np.random.Generator, *shape: int) -> Array:
        """Return random numbers, such that no float product overflows."""
        if self.element == "i1":
            return rng.random(shape) < (0.99 if self.combiner == "andi" else 0.01)
        if self.is_float:
            return (1 + rng.standard_normal(shape) / 50).astype(self.dtype)
        info = np.iinfo(self.dtype)
        return rng.integers(info.min, info.max, shape, self.dtype, endpoint=True)

    def expected(self, x: Array, y: Array) -> Array:
        """Return NumPy's result for the rows ``x`` and the output ``y`` before the run."""
        if self.is_float:
            x, y = x.astype(np.float64), y.astype(np.float64)
            return self.function(y, self.function.reduce(x, 1))
        return self.function(y, self.function.reduce(x, 1, dtype=x.dtype))


def shuffled_types(kernel: ir.Operation) -> set[str]:
    """Return the types of values that lanes exchange."""
    shuffles = [operation for operation in walk(kernel) if operation.name == "gpu.shuffle"]
    return {str(operation.results[0].type) for operation in shuffles}


def run(case: Reduction, x: Array, y: Array) -> set[str]:
    """Emulate the rKernel on the rows ``x``, with the output ``y``, which changes in place.

    Return the types of the values that lanes exchange.
    """
    shuffled: set[str] = set()
    memory = [kind.replace("xi1>", "xi8>") for kind in case.types]
    kernel, mapped = compile_mapped(
        case.source, memory, THREADS, lambda kernel: shuffled.update(shuffled_types(kernel))
    )
    scratch = np.zeros(mapped.scratch_bytes, np.uint8)
    launch(kernel, [x.view(np.int8) if x.dtype == bool else x,
                    y.view(np.int8) if y.dtype == bool else y, scratch],
           Grid(1, THREADS, 32))  # fmt: skip
    return shuffled


FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64")
_FLOAT_COMBINERS = {"addf": np.add, "mulf": np.multiply, "maximumf": np.maximum,
                    "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin}  # fmt: skip
_INTEGER_COMBINERS = {"addi": np.add, "muli": np.multiply, "maxsi": np.maximum,
                      "minsi": np.minimum, "andi": np.bitwise_and, "ori": np.bitwise_or,
                      "xori": np.bitwise_xor}  # fmt: skip
_UNSIGNED = {"maxui": np.maximum, "minui": np.minimum}

CASES = [
    *(Reduction(n, e, f) for n, f in _FLOAT_COMBINERS.items() for e in FLOATS),
    *(Reduction(n, e, f) for n, f in _INTEGER_COMBINERS.items() for e in INTEGERS),
    *(Reduction(n, e, f, unsigned=True) for n, f in _UNSIGNED.items() for e in INTEGERS),
    Reduction("addi", "i8", np.add, unsigned=True),
    Reduction("ori", "i1", np.logical_or),
    Reduction("andi", "i1", np.logical_and),
    Reduction("xori", "i1", np.logical_xor),
]

ERRORS = {"f16": 0.02, "bf16": 0.15, "f32": 1e-5, "f64": 1e-13}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lanes_share_a_result(case: Reduction) -> None:
    rng = np.random.default_rng(5)
    x, y = case.numbers(rng, ROWS, COLUMNS), case.numbers(rng, ROWS)
    expected = case.expected(x, y)
    exchanged = "f32" if case.element == "f32" else "f64" if case.element == "f64" else "i32"
    assert run(case, x, y) == {"i64" if case.element == "i64" else exchanged}
    if case.is_float:
        error = ERRORS[case.element]
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=error, atol=error)
    else:
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("combiner", ["maximumf", "maxnumf"])
def test_maxima_of_nans(combiner: str, element: str) -> None:
    """Maxima of a row with one NaN, and of a row of NaNs only, are those of NumPy."""
    case = Reduction(combiner, element, _FLOAT_COMBINERS[combiner])
    x = -np.arange(1, ROWS * COLUMNS + 1).reshape(ROWS, COLUMNS).astype(case.dtype)
    x[0, 17], x[1, :] = np.nan, np.nan
    y = np.full(ROWS, np.nan if combiner == "maxnumf" else -np.inf, case.dtype)
    expected = case.expected(x, y)
    run(case, x, y)
    np.testing.assert_array_equal(y.astype(np.float64), expected)


def test_differences_are_sums_in_lanes() -> None:
    case = Reduction("subf", "f32", np.subtract)
    rng = np.random.default_rng(7)
    x, y = case.numbers(rng, ROWS, COLUMNS), case.numbers(rng, ROWS)
    expected = y - x.astype(np.float64).sum(1)
    assert run(case, x, y)
    np.testing.assert_allclose(y, expected, rtol=1e-4)


def test_unknown_combiners_take_one_lane() -> None:
    """A reduction by division, which is not associative, is computed by a single lane."""
    case = Reduction("divf", "f32", np.divide)
    rng = np.random.default_rng(7)
    x, y = case.numbers(rng, ROWS, COLUMNS), case.numbers(rng, ROWS)
    expected = y / x.astype(np.float64).prod(1)
    assert not run(case, x, y)
    np.testing.assert_allclose(y, expected, rtol=1e-4)

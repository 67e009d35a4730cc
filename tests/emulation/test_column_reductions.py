"""Tests that vector-matrix products and sums over rows are right, on random shapes.

Several threads of a block compute partial results of the same columns.
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
from rammer_mlir.emulation.device.traces import warp_accesses
from rammer_mlir.lowering.gpu.column_plan import ColumnPlan, plan_columns
from rammer_mlir.lowering.gpu.contractions.plan import Access, Contraction
from rammer_mlir.lowering.gpu.contractions.plan_matching import plan_contractions

THREADS = 128
DTYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64
}  # fmt: skip
ERRORS = {"f32": 1e-3, "f16": 0.2, "bf16": 1.0, "f64": 1e-12}

Array = NDArray[Any]


@dataclass(frozen=True)
class Columns:
    """A test case: an rKernel that reduces a matrix over its rows, and adds the sums to its output.

    Attributes:
        rows, columns: sizes of the matrix.
        element: element type of the matrix and of the vector.
        times: whether row k is multiplied by element k of the vector: a vector-matrix product.
            Otherwise the rows are added.
        alignment: bytes that divide the addresses of all buffers.
        result: element type of the output, and of the sums.
    """

    rows: int
    columns: int
    element: str = "f32"
    times: bool = True
    alignment: int = 16
    result: str = "f32"

    @property
    def matrix(self) -> str:
        """Return the type of the matrix."""
        return f"memref<{self.rows}x{self.columns}x{self.element}>"

    @property
    def types(self) -> list[str]:
        """Return the memref types of the vector, the matrix and the output, as text."""
        return [
            f"memref<{self.rows}x{self.element}>",
            self.matrix,
            f"memref<{self.columns}x{self.result}>",
        ]

    @property
    def source(self) -> str:
        """Return MLIR text of the rKernel."""
        vector, matrix, result = self.types
        aligned = f"{{rtask.alignment = {self.alignment} : i64}}"
        kind, narrow = self.result, self.element != self.result
        body = [f"%r = arith.addf %c, %p : {kind}"]
        widen = [f"%{v}w = arith.extf %{v} : {self.element} to {kind}" for v in "vm"]
        widen = widen if narrow else []
        v, m = ("%vw", "%mw") if narrow else ("%v", "%m")
        factor = f"%p = arith.mulf {v}, {m} : {kind}"
        if not self.times:
            factor, body = "", [f"%r = arith.addf %c, {m} : {kind}"]
        lines = "\n    ".join([*widen, factor, *body])
        return f"""
func.func @kernel(%id: index, %x: {vector} {aligned}, %w: {matrix} {aligned},
    %y: {result} {aligned}) {{
  linalg.generic {{indexing_maps = [affine_map<(n, k) -> (k)>, affine_map<(n, k) -> (k, n)>,
      affine_map<(n, k) -> (n)>], iterator_types = ["parallel", "reduction"]}}
      ins(%x, %w : {vector}, {matrix}) outs(%y : {result}) {{
  ^bb0(%v: {self.element}, %m: {self.element}, %c: {kind}):
    {lines}
    linalg.yield %r : {kind}
  }}
  return
}}"""


def run(case: Columns, *, traced: bool = False) -> tuple[Array, Array, Any]:
    """Emulate the rKernel on random numbers; return the found and expected output and the trace.

    Accesses are in the trace only if ``traced``; else they are checked.
    """
    rng = np.random.default_rng(case.rows)
    dtype = DTYPES[case.element]
    x = rng.standard_normal(case.rows).astype(dtype)
    w = rng.standard_normal((case.rows, case.columns)).astype(dtype)
    y = rng.standard_normal(case.columns).astype(DTYPES[case.result])
    wide = w.astype(np.float64)
    columns = x.astype(np.float64) @ wide if case.times else wide.sum(0)
    expected = y.astype(np.float64) + columns
    kernel, mapped = compile_mapped(
        case.source, case.types, THREADS, lambda kernel: None, traced=traced
    )
    scratch = np.zeros(mapped.scratch_bytes, np.uint8)
    trace = launch(kernel, [x, w, y, scratch], Grid(1, THREADS, 32))
    return y.astype(np.float64), expected, trace


CASES = [
    Columns(256, 32),  # rows of eight tiles meet in warps, warps in shared memory
    Columns(784, 4),  # one tile of four results
    Columns(257, 10),  # no common factors, tiles of two
    Columns(100, 40),  # more places than tiles
    Columns(64, 128),  # rows of a warp
    Columns(33, 160),  # rows of 40 threads, spare ones
    Columns(12, 512),  # a thread for each tile
    Columns(256, 1),  # one result
    Columns(8, 7),
    Columns(128, 64, "f16"),
    Columns(128, 64, "bf16"),
    Columns(96, 24, times=False),
    Columns(96, 24, alignment=4),  # nothing is known of addresses
    Columns(128, 64, "f16", result="f16"),
    Columns(128, 16, "bf16", result="bf16"),
    Columns(96, 24, "f64", result="f64"),
    Columns(200, 3, "f16", times=False, result="f64"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_columns(case: Columns) -> None:
    found, expected, _ = run(case)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=ERRORS[case.result])


@pytest.mark.parametrize("result", ["f16", "f64"])
def test_results_of_other_widths_are_planned(result: str) -> None:
    """The plan's shared memory has room for the partial results, also if they are f16 or f64."""
    case = Columns(256, 32, result, result=result)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(case.source)
        kernel = module.body.operations[0].operation
        (plan,) = plan_contractions(kernel, THREADS, 1 << 15)
    assert isinstance(plan, ColumnPlan)
    assert plan.shared_bytes == plan.num_partial * np.dtype(DTYPES[result]).itemsize > 0


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_random_columns(number: int) -> None:
    rng = np.random.default_rng(number)
    rows, columns = int(rng.integers(1, 400)), int(rng.integers(1, 600))
    element = str(rng.choice(list(DTYPES)))
    result = "f64" if element == "f64" else "f32"
    case = Columns(rows, columns, element, bool(rng.integers(2)), result=result)
    found, expected, _ = run(case)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_lanes_read_neighbors() -> None:
    """Warps read the matrix once, by full loads of 16 bytes, and the vector by such loads.

    A thread makes 16 loads of four columns before it uses them, and loads four elements of the
    vector at a time.
    """
    case = Columns(256, 32)
    *_, trace = run(case, traced=True)
    wide = [one for one in warp_accesses(trace, 32) if one.access.num_bytes == 16]
    assert len(wide) == 16 + 16 // 4
    matrix = [one for one in wide if one.sectors * 32 == one.lanes * 16]
    assert sum(one.sectors for one in matrix) == 256 * 32 * 4 // 32
    assert len(matrix) == 16
    assert all(one.sectors == one.needed and one.lanes == 32 * one.executions for one in matrix)


def test_other_layouts_are_left_alone() -> None:
    """No column plan is made for sums of adjacent elements, strided columns or many results."""

    def contraction(*last: int, n: int = 16) -> Contraction:
        matrix = Access(1, ((0, 1), last), (0, 0), 4)
        return Contraction((n, 64), (0,), (1,), (Access(0, ((0, 1),), (0,), 4), matrix))

    assert plan_columns(contraction(1, 0), THREADS, 1 << 15) is not None
    for other in (
        contraction(0, 1),
        contraction(1, 1),
        contraction(2, 0),
        contraction(1, 0, n=4096),
    ):
        assert plan_columns(other, THREADS, 1 << 15) is None
    assert plan_columns(contraction(1, 0), THREADS, 16) is None

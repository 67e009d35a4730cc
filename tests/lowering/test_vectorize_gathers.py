"""Tests that rKernels load contiguous elements of a gather as vectors, and others one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernel_harness import compile_kernel, lower_text

ROWS, PICKED = 11, 7
DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i8": np.int8,
    "i64": np.int64,
    "i1": np.bool_,
}


def rows_kernel(columns: int, element: str, size: str = "", column: str = "%c") -> str:
    """Return the MLIR text of an rKernel that copies selected rows of a table.

    An input has the indices of the rows. Element (r, c) of the output is element ``column`` of the
    row that index r selects; ``column`` is the name of a value, by default ``%c``, the index c.
    ``size`` is the number of columns that are copied: by default all, with ``%n`` the rKernel's
    first argument.
    """
    shape = f"{PICKED}x{'?' if size == '%n' else size or columns}x{element}"
    kind = f"memref<{shape}, strided<[{columns}, 1]>>"
    size = size or str(columns)
    return f"""
func.func private @k(%n: index, %numbers: memref<{PICKED}xi64>,
    %table: memref<{ROWS}x{columns}x{element}>, %out: memref<{PICKED}x{columns}x{element}>) {{
  %view = memref.subview %out[0, 0] [{PICKED}, {size}] [1, 1]
      : memref<{PICKED}x{columns}x{element}> to {kind}
  %two = arith.constant 2 : index
  linalg.generic {{
      indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%numbers : memref<{PICKED}xi64>) outs(%view : {kind}) {{
  ^bb0(%number: i64, %old: {element}):
    %row = arith.index_cast %number : i64 to index
    %c = linalg.index 1 : index
    %wide = arith.index_cast %c : index to i64
    %same = arith.index_cast %wide : i64 to index
    %last = arith.subi %n, %c : index
    %next = arith.addi %c, %two : index
    %r = linalg.index 0 : index
    %value = memref.load %table[%row, {column}] : memref<{ROWS}x{columns}x{element}>
    linalg.yield %value : {element}
  }}
  return
}}"""


def table_of(columns: int, element: str) -> np.ndarray:
    values = np.random.default_rng(0).integers(-100, 100, (ROWS, columns))
    return (values > 0) if element == "i1" else values.astype(DTYPES[element])


NUMBERS = np.array([3, 0, 10, 10, 5, 1, 9], np.int64)


def loads_registers(source: str, element: str) -> bool:
    """Return whether a kernel's LLVM IR loads vectors of elements of type ``element``."""
    text = lower_text(source)
    kind = {"f32": "float", "f64": "double", "f16": "half"}.get(element, element)
    return re.search(rf"load[^\n]*<\d+ x {kind}>", text) is not None


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("columns", [1, 5, 16, 37, 200])
def test_rows_whose_numbers_are_data(columns: int, element: str) -> None:
    table = table_of(columns, element)
    found = np.zeros((PICKED, columns), DTYPES[element])
    compile_kernel(rows_kernel(columns, element))(0, NUMBERS, table, found)
    np.testing.assert_array_equal(found, table[NUMBERS])


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "i8", "i64"])
def test_contiguous_elements_are_loaded_as_registers(element: str) -> None:
    assert loads_registers(rows_kernel(200, element), element)


def test_booleans_are_bytes_in_memory_and_loaded_one_by_one() -> None:
    assert not loads_registers(rows_kernel(200, "i1"), "i1")


@pytest.mark.parametrize("columns", [37, 200])
@pytest.mark.parametrize("copied", [0, 1, 15, 16, 33, 37])
def test_a_number_of_columns_known_at_run_time(columns: int, copied: int) -> None:
    table, found = table_of(columns, "f32"), np.zeros((PICKED, columns), np.float32)
    source = rows_kernel(columns, "f32", size="%n")
    assert loads_registers(source, "f32")
    compile_kernel(source)(copied, NUMBERS, table, found)
    np.testing.assert_array_equal(found[:, :copied], table[NUMBERS, :copied])
    assert not found[:, copied:].any()


@pytest.mark.parametrize(
    ("column", "places", "is_contiguous"),
    [
        ("%same", range(35), True),
        ("%next", range(2, 37), True),
        ("%last", range(36, 1, -1), False),
        ("%r", None, False),
    ],
    ids=["converted", "shifted", "reversed", "row"],
)
def test_only_an_index_that_rises_by_one_is_contiguous(
    column: str, places: range | None, is_contiguous: bool
) -> None:
    copied, columns = 35, 37
    table, found = table_of(columns, "f32"), np.zeros((PICKED, columns), np.float32)
    source = rows_kernel(columns, "f32", size=str(copied), column=column)
    compile_kernel(source)(columns - 1, NUMBERS, table, found)
    expected = (
        table[NUMBERS, np.arange(PICKED)][:, np.newaxis].repeat(copied, 1)
        if places is None
        else table[NUMBERS][:, list(places)]
    )
    np.testing.assert_array_equal(found[:, :copied], expected)
    assert not found[:, copied:].any()
    if is_contiguous:
        assert loads_registers(source, "f32")


STRIDED = """
func.func private @k(%n: index, %numbers: memref<7xi64>,
    %table: memref<11x37xf32, strided<[74, 2]>>, %out: memref<7x37xf32>) {
  linalg.generic {
      indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%numbers : memref<7xi64>) outs(%out : memref<7x37xf32>) {
  ^bb0(%number: i64, %old: f32):
    %row = arith.index_cast %number : i64 to index
    %c = linalg.index 1 : index
    %value = memref.load %table[%row, %c] : memref<11x37xf32, strided<[74, 2]>>
    linalg.yield %value : f32
  }
  return
}"""


def test_a_buffer_with_distant_columns_is_not_contiguous() -> None:
    table, found = table_of(74, "f32"), np.zeros((PICKED, 37), np.float32)
    compile_kernel(STRIDED)(0, NUMBERS, table, found)
    np.testing.assert_array_equal(found, table[NUMBERS, ::2])
    assert not loads_registers(STRIDED, "f32")


SUMS = """
func.func private @k(%n: index, %numbers: memref<7x3xi64>, %weights: memref<7x3xf32>,
    %gains: memref<Cxf32>, %table: memref<11xCxf32>, %out: memref<OUTxf32>) {
  linalg.generic {
      indexing_maps = [affine_map<(r, c, s) -> (r, s)>, affine_map<(r, c, s) -> (r, s)>,
                       affine_map<(r, c, s) -> (c)>, affine_map<(r, c, s) -> (RESULT)>],
      iterator_types = ["parallel", "KIND", "reduction"]}
      ins(%numbers, %weights, %gains : memref<7x3xi64>, memref<7x3xf32>, memref<Cxf32>)
      outs(%out : memref<OUTxf32>) {
  ^bb0(%number: i64, %weight: f32, %gain: f32, %sum: f32):
    %row = arith.index_cast %number : i64 to index
    %c = linalg.index 1 : index
    %value = memref.load %table[%row, %c] : memref<11xCxf32>
    %product = arith.mulf %value, %weight : f32
    %scaled = arith.mulf %product, %gain : f32
    %next = arith.addf %sum, %scaled : f32
    linalg.yield %next : f32
  }
  return
}"""


@pytest.mark.parametrize("columns", [5, 48, 131])
@pytest.mark.parametrize("over_columns", [False, True])
def test_weighted_sums_of_gathered_rows(columns: int, over_columns: bool) -> None:
    result, kind = ("r", "reduction") if over_columns else ("r, c", "parallel")
    out = "7" if over_columns else f"7x{columns}"
    source = SUMS.replace("RESULT", result).replace("KIND", kind)
    source = source.replace("OUT", out)
    source = source.replace("11xC", f"11x{columns}").replace("<Cx", f"<{columns}x")
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, ROWS, (7, 3))
    weights = rng.standard_normal((7, 3)).astype(np.float32)
    gains, table = (rng.standard_normal(s).astype(np.float32) for s in (columns, (ROWS, columns)))
    found = np.ones([7] if over_columns else [7, columns], np.float32)
    compile_kernel(source)(0, numbers, weights, gains, table, found)
    expected = np.einsum("rsc,rs,c->rc", table[numbers].astype(np.float64), weights, gains)
    expected = 1 + (expected.sum(1) if over_columns else expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    if columns >= 48:
        assert loads_registers(source, "f32")

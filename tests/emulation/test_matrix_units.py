"""Tests that tensor-core operations in emulated kernels give NumPy's products.

A load of rows at a misaligned address is reported as a fault.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from gpu_kernels import SHARED, run

from rammer_mlir.errors import EmulationError

RNG = np.random.default_rng(31)
DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}

PRODUCT = f"""
gpu.func @product(%a: memref<AROWSxKIND>, %b: memref<BROWSxKIND>, %c: memref<16x8xf32>)
    workgroup(%sa: memref<1024xKIND, {SHARED}>, %sb: memref<1024xKIND, {SHARED}>) kernel {{
  %lane = gpu.lane_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c24 = arith.constant 24 : index
  %leader = arith.cmpi eq, %lane, %c0 : index
  %ah = arith.constant AHEIGHT : index
  %aw = arith.constant AWIDTH : index
  %bh = arith.constant BHEIGHT : index
  %bw = arith.constant BWIDTH : index
  scf.if %leader {{
    scf.for %i = %c0 to %ah step %c1 {{
      scf.for %j = %c0 to %aw step %c1 {{
        %x = memref.load %a[%i, %j] : memref<AROWSxKIND>
        %row = arith.muli %i, %c24 : index
        %at = arith.addi %row, %j : index
        memref.store %x, %sa[%at] : memref<1024xKIND, {SHARED}>
      }}
    }}
    scf.for %i = %c0 to %bh step %c1 {{
      scf.for %j = %c0 to %bw step %c1 {{
        %x = memref.load %b[%i, %j] : memref<BROWSxKIND>
        %row = arith.muli %i, %c24 : index
        %at = arith.addi %row, %j : index
        memref.store %x, %sb[%at] : memref<1024xKIND, {SHARED}>
      }}
    }}
  }}
  gpu.barrier
  %line = arith.remui %lane, %c8 : index
  %matrix = arith.divui %lane, %c8 : index
  %low = arith.remui %matrix, %c2 : index
  %high = arith.divui %matrix, %c2 : index
  %low8 = arith.muli %low, %c8 : index
  %high8 = arith.muli %high, %c8 : index
  ADDRESSES
  %at_a0 = arith.muli %arow, %c24 : index
  %at_a1 = arith.addi %at_a0, %acol : index
  %at_a = arith.addi %at_a1, %shift : index
  %at_b0 = arith.muli %brow, %c24 : index
  %at_b = arith.addi %at_b0, %bcol : index
  %fa = nvgpu.ldmatrix %sa[%at_a] {{numTiles = 4 : i32, transpose = ATRANSPOSE}}
      : memref<1024xKIND, {SHARED}> -> vector<4x2xKIND> loc("rows")
  %fb = nvgpu.ldmatrix %sb[%at_b] {{numTiles = 2 : i32, transpose = BTRANSPOSE}}
      : memref<1024xKIND, {SHARED}> -> vector<2x2xKIND>
  %row = arith.divui %lane, %c4 : index
  %pair = arith.remui %lane, %c4 : index
  %column = arith.muli %pair, %c2 : index
  %next = arith.addi %column, %c1 : index
  %row8 = arith.addi %row, %c8 : index
  %c00 = memref.load %c[%row, %column] : memref<16x8xf32>
  %c01 = memref.load %c[%row, %next] : memref<16x8xf32>
  %c10 = memref.load %c[%row8, %column] : memref<16x8xf32>
  %c11 = memref.load %c[%row8, %next] : memref<16x8xf32>
  %fc = vector.from_elements %c00, %c01, %c10, %c11 : vector<2x2xf32>
  %fd = nvgpu.mma.sync(%fa, %fb, %fc) {{mmaShape = [16, 8, 16]}}
      : (vector<4x2xKIND>, vector<2x2xKIND>, vector<2x2xf32>) -> vector<2x2xf32>
  %d00 = vector.extract %fd[0, 0] : f32 from vector<2x2xf32>
  %d01 = vector.extract %fd[0, 1] : f32 from vector<2x2xf32>
  %d10 = vector.extract %fd[1, 0] : f32 from vector<2x2xf32>
  %d11 = vector.extract %fd[1, 1] : f32 from vector<2x2xf32>
  memref.store %d00, %c[%row, %column] : memref<16x8xf32>
  memref.store %d01, %c[%row, %next] : memref<16x8xf32>
  memref.store %d10, %c[%row8, %column] : memref<16x8xf32>
  memref.store %d11, %c[%row8, %next] : memref<16x8xf32>
  gpu.return
}}
"""
"""One warp adds a product to C; A is stored by rows or by columns, and so is B."""

_ROW_A = """
  %arow = arith.addi %low8, %line : index
  %acol = arith.addi %high8, %c0 : index"""
_COLUMN_A = """
  %arow = arith.addi %high8, %line : index
  %acol = arith.addi %low8, %c0 : index"""
_ROW_B = """
  %brow = arith.addi %low8, %line : index
  %bcol = arith.constant 0 : index"""
_COLUMN_B = """
  %brow = arith.addi %line, %c0 : index
  %bcol = arith.addi %low8, %c0 : index"""


def text(kind: str, *, a_by_rows: bool, b_by_rows: bool, shift: int = 0) -> str:
    """Return the kernel of A [16, 16] times B [16, 8], each stored by rows or by columns.

    ``kind`` is the element type; addresses of A are ``shift`` elements too large.
    """
    b_height, b_width = (16, 8) if b_by_rows else (8, 16)
    addresses = (_ROW_A if a_by_rows else _COLUMN_A) + (_ROW_B if b_by_rows else _COLUMN_B)
    addresses += f"\n  %shift = arith.constant {shift} : index"
    replaced = {
        "ADDRESSES": addresses, "AROWS": "16x16", "BROWS": f"{b_height}x{b_width}",
        "AHEIGHT": "16", "AWIDTH": "16", "BHEIGHT": str(b_height), "BWIDTH": str(b_width),
        "ATRANSPOSE": str(not a_by_rows).lower(), "BTRANSPOSE": str(b_by_rows).lower(),
        "KIND": kind,
    }  # fmt: skip
    found = PRODUCT
    for name, value in replaced.items():
        found = found.replace(name, value)
    return found


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("b_by_rows", [False, True])
@pytest.mark.parametrize("a_by_rows", [False, True])
def test_products(kind: str, a_by_rows: bool, b_by_rows: bool) -> None:
    a = RNG.standard_normal((16, 16)).astype(DTYPES[kind])
    b = RNG.standard_normal((16, 8)).astype(DTYPES[kind])
    c = RNG.standard_normal((16, 8)).astype(np.float32)
    expected = c + a.astype(np.float64) @ b.astype(np.float64)
    stored_a = np.ascontiguousarray(a if a_by_rows else a.T)
    stored_b = np.ascontiguousarray(b if b_by_rows else b.T)
    run(text(kind, a_by_rows=a_by_rows, b_by_rows=b_by_rows), [stored_a, stored_b, c], 1, 32)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


def test_rows_that_are_not_aligned() -> None:
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    kernel = text("f16", a_by_rows=True, b_by_rows=True, shift=4)
    with pytest.raises(EmulationError) as raised:
        run(kernel, [a, b, np.zeros((16, 8), np.float32)], 1, 32)
    message = str(raised.value)
    assert message.startswith("kernel 'product': misaligned: block 0, lane")
    assert "'nvgpu.ldmatrix' (rows) accesses shared memory 0 of block 0 at index" in message
    assert message.endswith("expected a multiple of 16 bytes")

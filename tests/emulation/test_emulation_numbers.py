"""Correct kernels give NumPy's numbers, both with the emulator's checks and without."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from gpu_kernels import MATMUL, REVERSE, SHUFFLE, SUM, Array, chain, run

RNG = np.random.default_rng(7)


def random(*shape: int) -> Array:
    """Return random numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(params=[False, True], ids=["plain", "checked"])
def checked(request: pytest.FixtureRequest) -> bool:
    """Return whether kernels run with checks; tests run both ways."""
    return bool(request.param)


def test_shared_memory(checked: bool) -> None:
    x, y = random(4, 64), np.zeros((4, 64), np.float32)
    run(REVERSE.replace("BARRIER", "gpu.barrier"), [x, y], 4, 64, checked=checked)
    np.testing.assert_array_equal(y, x[:, ::-1])


@pytest.mark.parametrize("subgroup", [32, 64])
def test_sum(checked: bool, subgroup: int) -> None:
    x, y = random(3, 128), np.zeros(3, np.float32)
    run(SUM, [x, y], 3, 128, subgroup=subgroup, checked=checked)
    np.testing.assert_allclose(y, x.sum(1, dtype=np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("element", ["f32", "i32", "f64", "i64", "f16", "bf16", "i8"])
@pytest.mark.parametrize("subgroup", [32, 64])
@pytest.mark.parametrize(
    ("mode", "offset"), [("xor", 5), ("up", 3), ("down", 9), ("idx", 17), ("xor", 16)]
)
def test_shuffle(element: str, subgroup: int, mode: str, offset: int) -> None:
    dtypes = {"f32": "f4", "i32": "i4", "f64": "f8", "i64": "i8", "f16": "f2", "i8": "i1"}
    dtype = np.dtype(ml_dtypes.bfloat16) if element == "bf16" else np.dtype(dtypes[element])
    x = RNG.integers(-99, 99, 64).astype(dtype)
    y, valid = np.zeros_like(x), np.zeros(64, np.int32)
    text = SHUFFLE.replace("ELEMENT", element).replace("MODE", mode)
    text = text.replace("WIDTH", str(subgroup)).replace("OFFSET", str(offset))
    run(text, [x, y, valid], 1, 64, subgroup=subgroup)
    lane = np.arange(64) % subgroup
    source = {"xor": lane ^ offset, "up": lane - offset, "down": lane + offset,
              "idx": np.full(64, offset)}[mode]  # fmt: skip
    good = (source >= 0) & (source < subgroup)
    base = np.arange(64) - lane
    np.testing.assert_array_equal(valid, good.astype(np.int32))
    np.testing.assert_array_equal(y, x[np.where(good, base + source, np.arange(64))])


@pytest.mark.parametrize("offset", [1, 8, 16])
def test_shuffle_in_parts_of_a_wave(offset: int) -> None:
    """A shuffle of width 32 exchanges values within each half of a wave of 64, as on AMD GPUs."""
    x = RNG.standard_normal(64).astype(np.float32)
    y, valid = np.zeros_like(x), np.zeros(64, np.int32)
    text = SHUFFLE.replace("ELEMENT", "f32").replace("MODE", "xor")
    text = text.replace("WIDTH", "32").replace("OFFSET", str(offset))
    run(text, [x, y, valid], 1, 64, subgroup=64)
    assert valid.all()
    np.testing.assert_array_equal(y, x[np.arange(64) ^ offset])


@pytest.mark.parametrize("subgroup", [32, 64])
def test_subgroup_reduce(subgroup: int) -> None:
    text = """
gpu.func @reduce(%x: memref<64xf32>, %y: memref<64xf32>) kernel {
  %t = gpu.thread_id x
  %v = memref.load %x[%t] : memref<64xf32>
  %s = gpu.subgroup_reduce add %v : (f32) -> f32
  %m = gpu.subgroup_reduce maxnumf %v : (f32) -> f32
  %d = arith.subf %s, %m : f32
  memref.store %d, %y[%t] : memref<64xf32>
  gpu.return
}"""
    x, y = random(64), np.zeros(64, np.float32)
    run(text, [x, y], 1, 64, subgroup=subgroup)
    groups = x.reshape(-1, subgroup)
    expected = np.repeat(groups.sum(1) - groups.max(1), subgroup)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_matrix_product(checked: bool) -> None:
    a, b, c = random(32, 48), random(48, 24), np.zeros((32, 24), np.float32)
    run(MATMUL.replace("BARRIER", "gpu.barrier"), [a, b, c], 12, 64, checked=checked)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


def chain_result(x: Array) -> Array:
    """Return the rows that ``CHAIN`` computes from the first row of ``x``."""
    expected = x.copy()
    for row in range(1, 16):
        expected[row] = expected[row - 1][::-1] + 1
    return expected


def test_chain_of_more_blocks_than_cores(checked: bool) -> None:
    x, steps = random(16, 32), np.zeros((16, 16), np.int32)
    expected = chain_result(x)
    for number in (1, 2):  # counters go on growing
        run(chain(), [x, steps, number], 16, 32, checked=checked)
        np.testing.assert_array_equal(x, expected)
        np.testing.assert_array_equal(steps[:, 0], number)


RELAXED_LOAD = (
    'llvm.load %p atomic syncscope("device") monotonic {alignment = 4 : i64} : !llvm.ptr -> i32'
    '\n llvm.fence syncscope("device") acquire'
)
FENCED_STORE = (
    'llvm.fence syncscope("device") release\n'
    'llvm.store %goal, %own atomic syncscope("device") monotonic {alignment = 4 : i64} '
    ": i32, !llvm.ptr"
)
ADD = 'llvm.atomicrmw add %own, %goal syncscope("device") acq_rel : !llvm.ptr, i32'


@pytest.mark.parametrize("store", [FENCED_STORE, ADD], ids=["fence", "add"])
def test_other_ways_to_publish(store: str) -> None:
    x, steps = random(16, 32), np.zeros((16, 16), np.int32)
    expected = chain_result(x)
    run(chain(RELAXED_LOAD, store), [x, steps, 1], 16, 32)
    np.testing.assert_array_equal(x, expected)


def test_atomic_adds_of_all_lanes(checked: bool) -> None:
    text = """
gpu.func @count(%y: memref<1xi32>) kernel {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %old = memref.atomic_rmw addi %one, %y[%c0] : (i32, memref<1xi32>) -> i32
  gpu.return
}"""
    y = np.array([5], np.int32)
    run(text, [y], 40, 33, checked=checked)
    assert y[0] == 5 + 40 * 33


def test_private_memory_vectors_and_subviews(checked: bool) -> None:
    text = """
gpu.func @square(%x: memref<32x4xf32>, %y: memref<32x4xf32>)
    private(%p: memref<4xf32, 5>) kernel {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %row = memref.subview %x[%t, 0] [1, 4] [1, 1]
      : memref<32x4xf32> to memref<4xf32, strided<[1], offset: ?>>
  %v = vector.load %row[%c0] : memref<4xf32, strided<[1], offset: ?>>, vector<4xf32>
  %s = arith.mulf %v, %v : vector<4xf32>
  vector.store %s, %p[%c0] : memref<4xf32, 5>, vector<4xf32>
  %w = vector.load %p[%c0] : memref<4xf32, 5>, vector<4xf32>
  vector.store %w, %y[%t, %c0] : memref<32x4xf32>, vector<4xf32>
  gpu.return
}"""
    x, y = random(32, 4), np.zeros((32, 4), np.float32)
    run(text, [x, y], 1, 32, checked=checked)
    np.testing.assert_array_equal(y, x * x)


def test_large_private_memory() -> None:
    text = """
gpu.func @deep(%y: memref<4xf32>) private(%p: memref<50000xf32, 5>) kernel {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 50000 : index
  scf.for %i = %c0 to %n step %c1 {
    %j = arith.addi %i, %t : index
    %k = arith.index_cast %j : index to i32
    %v = arith.sitofp %k : i32 to f32
    memref.store %v, %p[%i] : memref<50000xf32, 5>
  }
  gpu.barrier
  %g = memref.load %y[%t] : memref<4xf32>
  %h = arith.fptosi %g : f32 to i32
  %l = arith.index_cast %h : i32 to index
  %w = memref.load %p[%l] : memref<50000xf32, 5>
  memref.store %w, %y[%t] : memref<4xf32>
  gpu.return
}"""
    y = np.array([7, 49999, 0, 30000], np.float32)
    expected = y + np.arange(4)
    run(text, [y], 1, 4)
    np.testing.assert_array_equal(y, expected)

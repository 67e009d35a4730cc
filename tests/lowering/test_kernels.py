"""Tests that whole rKernels give NumPy's results, or are refused.

The rKernels have buffers, views, control flow and several element types.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import assembly, compile_kernel, lower_text
from machines import X86_64_AVX512

from rammer_mlir.bindings import ir
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.llvm.machine import host_machine

_RANDOM = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def test_softmax_of_a_tile_with_dynamic_edge() -> None:
    """A softmax is right in a tile whose number of rows is known at run time only.

    50 rows are cut into tiles of 16: the last rTask has 2 rows, in temporaries bounded by 16 rows.
    """
    rows = "affine_map<(i, j) -> (i)>"
    every = "affine_map<(i, j) -> (i, j)>"
    tile = "memref<?x33xf32, strided<[33, 1], offset: ?>>"
    source = f"""
func.func private @k(%id: index, %x: memref<50x33xf32>, %y: memref<50x33xf32>) {{
  %first = affine.apply affine_map<(d0) -> (d0 * 16)>(%id)
  %n = affine.min affine_map<(d0) -> (16, 50 - d0 * 16)>(%id)
  %in = memref.subview %x[%first, 0] [%n, 33] [1, 1] : memref<50x33xf32> to {tile}
  %out = memref.subview %y[%first, 0] [%n, 33] [1, 1] : memref<50x33xf32> to {tile}
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %max = memref.alloc(%n) : memref<?xf32>
  %sum = memref.alloc(%n) : memref<?xf32>
  linalg.fill ins(%low : f32) outs(%max : memref<?xf32>)
  linalg.fill ins(%zero : f32) outs(%sum : memref<?xf32>)
  linalg.generic {{indexing_maps = [{every}, {rows}], iterator_types = ["parallel", "reduction"]}}
      ins(%in : {tile}) outs(%max : memref<?xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32
  }}
  %e = memref.alloc(%n) : memref<?x33xf32>
  linalg.generic {{indexing_maps = [{every}, {rows}, {every}],
      iterator_types = ["parallel", "parallel"]}}
      ins(%in, %max : {tile}, memref<?xf32>) outs(%e : memref<?x33xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  }}
  linalg.generic {{indexing_maps = [{every}, {rows}], iterator_types = ["parallel", "reduction"]}}
      ins(%e : memref<?x33xf32>) outs(%sum : memref<?xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %b, %a : f32
    linalg.yield %r : f32
  }}
  linalg.generic {{indexing_maps = [{every}, {rows}, {every}],
      iterator_types = ["parallel", "parallel"]}}
      ins(%e, %sum : memref<?x33xf32>, memref<?xf32>) outs(%out : {tile}) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  }}
  memref.dealloc %max : memref<?xf32>
  memref.dealloc %sum : memref<?xf32>
  memref.dealloc %e : memref<?x33xf32>
  return
}}"""
    kernel = compile_kernel(source)
    x, y = _floats(50, 33), np.full((50, 33), 7.0, np.float32)
    for rtask in range(4):
        kernel(rtask, x, y)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_named_operations_and_copies() -> None:
    source = """
func.func private @k(%id: index, %x: memref<5x37xf32>, %y: memref<37x5xf32>, %z: memref<5xf32>,
                     %w: memref<5x37xf32, strided<[64, 1]>>) {
  linalg.transpose ins(%x : memref<5x37xf32>) outs(%y : memref<37x5xf32>) permutation = [1, 0]
  linalg.reduce { arith.addf } ins(%x : memref<5x37xf32>) outs(%z : memref<5xf32>) dimensions = [1]
  memref.copy %x, %w : memref<5x37xf32> to memref<5x37xf32, strided<[64, 1]>>
  return
}"""
    x, y, z = _floats(5, 37), _floats(37, 5), np.zeros(5, np.float32)
    w = np.zeros((5, 64), np.float32)
    compile_kernel(source)(0, x, y, z, w)
    np.testing.assert_array_equal(y, x.T)
    np.testing.assert_allclose(z, x.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(w[:, :37], x)
    assert not w[:, 37:].any()


def test_convolution_and_pooling_by_name() -> None:
    source = """
func.func private @k(%id: index, %x: memref<1x3x9x9xf32>, %w: memref<20x3x3x3xf32>,
                     %y: memref<1x20x4x4xf32>, %p: memref<1x3x4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<1x20x4x4xf32>)
  linalg.conv_2d_nchw_fchw {strides = dense<2> : vector<2xi64>,
      dilations = dense<1> : vector<2xi64>}
    ins(%x, %w : memref<1x3x9x9xf32>, memref<20x3x3x3xf32>) outs(%y : memref<1x20x4x4xf32>)
  linalg.fill ins(%low : f32) outs(%p : memref<1x3x4x4xf32>)
  %window = memref.alloc() : memref<3x3xf32>
  linalg.pooling_nchw_max {strides = dense<2> : vector<2xi64>,
      dilations = dense<1> : vector<2xi64>}
    ins(%x, %window : memref<1x3x9x9xf32>, memref<3x3xf32>) outs(%p : memref<1x3x4x4xf32>)
  return
}"""
    x, w = _floats(1, 3, 9, 9), _floats(20, 3, 3, 3)
    y, p = _floats(1, 20, 4, 4), _floats(1, 3, 4, 4)
    compile_kernel(source)(0, x, w, y, p)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (1, 2))[:, ::2, ::2]
    np.testing.assert_allclose(y[0], np.einsum("chwij,ocij->ohw", windows, w), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(p[0], windows.max((3, 4)))


def test_booleans_are_bytes() -> None:
    source = """
#map = affine_map<(i) -> (i)>
func.func private @k(%id: index, %x: memref<50xf32>, %m: memref<50xi1>, %y: memref<50xf32>,
                     %any: memref<i1>) {
  %zero = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x : memref<50xf32>) outs(%m : memref<50xi1>) {
  ^bb0(%a: f32, %o: i1):
    %c = arith.cmpf ogt, %a, %zero : f32
    linalg.yield %c : i1
  }
  linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
      ins(%m, %x : memref<50xi1>, memref<50xf32>) outs(%y : memref<50xf32>) {
  ^bb0(%c: i1, %a: f32, %o: f32):
    %r = arith.select %c, %a, %zero : f32
    linalg.yield %r : f32
  }
  %c7 = arith.constant 7 : index
  %bit = memref.load %m[%c7] : memref<50xi1>
  %true = arith.constant true
  %not = arith.xori %bit, %true : i1
  memref.store %not, %any[] : memref<i1>
  return
}"""
    x, m, y = _floats(50), np.zeros(50, np.bool_), _floats(50)
    inverted = np.zeros((), np.bool_)
    compile_kernel(source)(0, x, m, y, inverted)
    np.testing.assert_array_equal(m, x > 0)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert bool(inverted) is not bool(m[7])


def test_gather_and_arg_max() -> None:
    source = """
#in = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func private @k(%id: index, %table: memref<9x40xf32>, %rows: memref<6xi64>,
                     %y: memref<6x40xf32>, %best: memref<6xf32>, %where: memref<6xi64>) {
  linalg.generic {indexing_maps = [#row, #in], iterator_types = ["parallel", "parallel"]}
      ins(%rows : memref<6xi64>) outs(%y : memref<6x40xf32>) {
  ^bb0(%row: i64, %o: f32):
    %i = arith.index_cast %row : i64 to index
    %j = linalg.index 1 : index
    %v = memref.load %table[%i, %j] : memref<9x40xf32>
    linalg.yield %v : f32
  }
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant -1 : i64
  linalg.fill ins(%low : f32) outs(%best : memref<6xf32>)
  linalg.fill ins(%none : i64) outs(%where : memref<6xi64>)
  linalg.generic {indexing_maps = [#in, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%y : memref<6x40xf32>) outs(%best, %where : memref<6xf32>, memref<6xi64>) {
  ^bb0(%v: f32, %b: f32, %w: i64):
    %j = linalg.index 1 : index
    %number = arith.index_cast %j : index to i64
    %more = arith.cmpf ogt, %v, %b : f32
    %nb = arith.select %more, %v, %b : f32
    %nw = arith.select %more, %number, %w : i64
    linalg.yield %nb, %nw : f32, i64
  }
  return
}"""
    table, rows = _floats(9, 40), np.array([8, 0, 3, 3, 1, 7], np.int64)
    y, best, where = _floats(6, 40), _floats(6), np.zeros(6, np.int64)
    compile_kernel(source)(0, table, rows, y, best, where)
    np.testing.assert_array_equal(y, table[rows])
    np.testing.assert_array_equal(best, table[rows].max(1))
    np.testing.assert_array_equal(where, table[rows].argmax(1))


def test_index_arithmetic_control_flow_and_constants() -> None:
    """An rKernel with index arithmetic, a branch, a loop and a constant table is right."""
    source = """
memref.global "private" constant @table : memref<4xf32> = dense<[1.0, 2.0, 4.0, 8.0]>
func.func private @k(%id: index, %x: memref<6x8xf32>, %y: memref<6x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = memref.get_global @table : memref<4xf32>
  %r:2 = affine.delinearize_index %id into (6, 2) : index, index
  %col = affine.apply affine_map<(d0) -> (d0 * 4)>(%r#1)
  %in = memref.subview %x[%r#0, %col] [1, 4] [1, 1]
      : memref<6x8xf32> to memref<4xf32, strided<[1], offset: ?>>
  %out = memref.subview %y[%r#0, %col] [1, 4] [1, 1]
      : memref<6x8xf32> to memref<4xf32, strided<[1], offset: ?>>
  %even = arith.cmpi eq, %r#1, %c0 : index
  scf.if %even {
    linalg.add ins(%in, %t : memref<4xf32, strided<[1], offset: ?>>, memref<4xf32>)
               outs(%out : memref<4xf32, strided<[1], offset: ?>>)
  } else {
    scf.for %i = %c0 to %c4 step %c1 {
      %a = memref.load %in[%i] : memref<4xf32, strided<[1], offset: ?>>
      %b = memref.load %t[%i] : memref<4xf32>
      %m = arith.mulf %a, %b : f32
      memref.store %m, %out[%i] : memref<4xf32, strided<[1], offset: ?>>
    }
  }
  return
}"""
    kernel = compile_kernel(source)
    x, y = _floats(6, 8), _floats(6, 8)
    for rtask in range(12):
        kernel(rtask, x, y)
    table = np.array([1, 2, 4, 8], np.float32)
    np.testing.assert_array_equal(y[:, :4], x[:, :4] + table)
    np.testing.assert_array_equal(y[:, 4:], x[:, 4:] * table)


def test_integer_division_by_disabled_lanes_does_not_trap() -> None:
    source = """
#map = affine_map<(i) -> (i)>
func.func private @k(%id: index, %x: memref<5xi32>, %y: memref<5xi32>, %z: memref<5xi32>) {
  linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
      ins(%x, %y : memref<5xi32>, memref<5xi32>) outs(%z : memref<5xi32>) {
  ^bb0(%a: i32, %b: i32, %o: i32):
    %q = arith.divsi %a, %b : i32
    linalg.yield %q : i32
  }
  return
}"""
    x, y = np.array([7, -7, 9, 100, 3], np.int32), np.array([2, 2, -3, 7, 5], np.int32)
    z = np.zeros(5, np.int32)
    compile_kernel(source)(0, x, y, z)
    assert z.tolist() == [3, -3, -3, 14, 0]


@pytest.mark.parametrize("reduced", ["maximumf", "maxnumf"])
def test_nan_in_a_row_maximum(reduced: str) -> None:
    source = f"""
func.func private @k(%id: index, %x: memref<3x40xf32>, %y: memref<3xf32>) {{
  linalg.reduce {{ arith.{reduced} }} ins(%x : memref<3x40xf32>) outs(%y : memref<3xf32>)
      dimensions = [1]
  return
}}"""
    x, y = _floats(3, 40), np.full(3, -np.inf, np.float32)
    x[1, 17] = np.nan
    compile_kernel(source)(0, x, y)
    expected = (np.max if reduced == "maximumf" else np.nanmax)(x, axis=1)
    np.testing.assert_array_equal(y, expected)


def test_a_row_maximum_of_numbers() -> None:
    """A row maximum that need not propagate NaN has no instructions that detect NaN."""
    source = """
func.func private @k(%id: index, %x: memref<3x200xf32>, %y: memref<3xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<3x200xf32>) outs(%y : memref<3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.maximumf %out, %in {rtask.unspecified_nan} : f32
    linalg.yield %m : f32
  }
  return
}"""
    x, y = _floats(3, 200), np.full(3, -np.inf, np.float32)
    x[0], x[1, :199] = -1.0, -np.inf
    compile_kernel(source)(0, x, y)
    np.testing.assert_array_equal(y, x.max(axis=1))
    text = assembly(source, X86_64_AVX512)
    assert "vmaxps" in text and "vcmpunord" not in text
    kept = assembly(source.replace("{rtask.unspecified_nan}", ""), X86_64_AVX512)
    assert "vcmpunord" in kept


def test_temporary_without_bound_is_refused() -> None:
    source = """
func.func private @unbounded(%id: index, %x: memref<8xf32>) {
  %t = memref.alloc(%id) : memref<?xf32>
  %v = memref.load %x[%id] : memref<8xf32>
  memref.store %v, %t[%id] : memref<?xf32>
  return
}"""
    with pytest.raises(UnsupportedError, match=r"unbounded.*memref<\?xf32>.*affine\.min"):
        lower_text(source)


def test_temporary_beyond_the_stack_is_refused() -> None:
    source = """
func.func private @large(%id: index, %x: memref<8xf32>) {
  %t = memref.alloc() : memref<2000000xf32>
  %v = memref.load %x[%id] : memref<8xf32>
  memref.store %v, %t[%id] : memref<2000000xf32>
  return
}"""
    with pytest.raises(UnsupportedError, match=r"large.*8000000"):
        lower_text(source)


def test_other_operations_stay() -> None:
    """Only rKernels are lowered; a constant that `@main` uses, too, stays a `memref.global`."""
    source = """
memref.global "private" constant @c : memref<2xf32> = dense<[1.0, 2.0]>
func.func @main(%x: memref<2xf32>) {
  %c = memref.get_global @c : memref<2xf32>
  memref.copy %c, %x : memref<2xf32> to memref<2xf32>
  return
}
func.func private @k(%id: index, %x: memref<2xf32>) {
  %c = memref.get_global @c : memref<2xf32>
  memref.copy %c, %x : memref<2xf32> to memref<2xf32>
  return
}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        lower_kernels(module, host_machine())
        names = [operation.operation.name for operation in module.body.operations]
        assert module.operation.verify()
    assert names == ["memref.global", "func.func", "llvm.mlir.global", "llvm.func"]


def test_temporaries_in_front_of_everything() -> None:
    """An rKernel that begins with two allocations gives right results.

    Stack memory replaces both at the rKernel's begin, where the first operation is an allocation.
    """
    kernel = compile_kernel("""
func.func private @k(%id: index, %x: memref<4xf32>, %y: memref<4xf32>) {
  %a = memref.alloc() : memref<4xf32>
  %b = memref.alloc() : memref<4xf32>
  linalg.copy ins(%x : memref<4xf32>) outs(%a : memref<4xf32>)
  linalg.copy ins(%a : memref<4xf32>) outs(%b : memref<4xf32>)
  linalg.copy ins(%b : memref<4xf32>) outs(%y : memref<4xf32>)
  return
}""")
    x = np.random.default_rng(0).standard_normal(4).astype(np.float32)
    y = np.zeros(4, np.float32)
    kernel(0, x, y)
    np.testing.assert_array_equal(y, x)

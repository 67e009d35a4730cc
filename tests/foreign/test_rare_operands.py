"""MLIR modules with rare operands: guarded divisors, unsigned or wild indices, negative padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rammer_mlir

Array = NDArray[Any]


def _run(text: str, *arrays: Array, **options: Any) -> Array:
    """Compile a module of one function, and return its result."""
    with rammer_mlir.compile(text, cache=False, num_veus=1, **options) as made:
        return np.asarray(made(*arrays))


def _dense(array: Array) -> str:
    return str(array.tolist())


def _mapped(body: str) -> str:
    """Return a module that applies ``body`` to the elements ``%x`` and ``%y`` of two tensors."""
    return f"""func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {{
      %e = tensor.empty() : tensor<4xi32>
      %r = linalg.map ins(%a, %b : tensor<4xi32>, tensor<4xi32>) outs(%e : tensor<4xi32>)
        (%x: i32, %y: i32, %o: i32) {{
{body}
        }}
      return %r : tensor<4xi32> }}"""


def test_a_divisor_that_is_selected() -> None:
    """A select of the module's own does not guard the division."""
    text = _mapped("""
          %five = arith.constant 5 : i32
          %above = arith.cmpi sgt, %x, %five : i32
          %d = arith.select %above, %five, %y : i32
          %q = arith.divsi %x, %d : i32
          linalg.yield %q : i32""")
    a, b = np.array([1, 4, 7, -8], np.int32), np.array([0, 2, 0, -1], np.int32)
    assert _run(text, a, b).tolist() == [1, 2, 1, 8]


def test_a_division_in_a_branch() -> None:
    """Legalization makes a select of the branch, and of the divisor."""
    text = _mapped("""
          %zero = arith.constant 0 : i32
          %above = arith.cmpi sgt, %x, %zero : i32
          %v = scf.if %above -> (i32) {
            %q = arith.divsi %x, %y : i32
            scf.yield %q : i32
          } else {
            scf.yield %x : i32 }
          linalg.yield %v : i32""")
    a, b = np.array([7, 7, -7, 0], np.int32), np.array([0, 2, 0, 0], np.int32)
    assert _run(text, a, b).tolist() == [7, 3, -7, 0]


def test_unsigned_indices_of_a_scatter() -> None:
    """Indices of 128 and more are not negative."""
    text = """func.func @main(%x: tensor<200xf32>, %i: tensor<4x1xui8>, %u: tensor<4xf32>)
        -> tensor<200xf32> {
      %r = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
          inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
          indices_are_sorted = false, unique_indices = false}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32> })
        : (tensor<200xf32>, tensor<4x1xui8>, tensor<4xf32>) -> tensor<200xf32>
      return %r : tensor<200xf32> }"""
    places = np.array([[1], [127], [128], [199]], np.uint8)
    found = _run(text, np.zeros(200, np.float32), places, np.ones(4, np.float32))
    assert np.flatnonzero(found).tolist() == places.ravel().tolist()


def test_indices_of_a_gather_beyond_the_source() -> None:
    text = """func.func @main(%x: tensor<5x3xf32>, %i: tensor<4x1xindex>) -> tensor<4x1x3xf32> {
      %r = tensor.gather %x[%i] gather_dims([0])
        : (tensor<5x3xf32>, tensor<4x1xindex>) -> tensor<4x1x3xf32>
      return %r : tensor<4x1x3xf32> }"""
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    found = _run(text, x, np.array([[2], [1 << 40], [-(1 << 40)], [4]], np.int64))
    np.testing.assert_array_equal(found[:, 0], x[[2, 4, 0, 4]])


@pytest.mark.parametrize("widths", [(-5, 2), (2, -5), (-3, -4), (-30, 15), (15, -30), (-20, 3)])
@pytest.mark.parametrize("border", ["constant", "argument"])
def test_negative_padding(widths: tuple[int, int], border: str) -> None:
    """A negative width removes elements; more than there are leave less padding."""
    low, high = widths
    size = 20 + low + high
    value = "%c = arith.constant 7.0 : f32" if border == "constant" else ""
    name = "%c" if border == "constant" else "%v"
    text = f"""func.func @main(%x: tensor<20xf32>, %t: tensor<f32>) -> tensor<{size}xf32> {{
      %v = tensor.extract %t[] : tensor<f32>
      {value}
      %r = tensor.pad %x low[{low}] high[{high}] {{
        ^bb0(%i: index): tensor.yield {name} : f32 }} : tensor<20xf32> to tensor<{size}xf32>
      return %r : tensor<{size}xf32> }}"""
    x = np.arange(20, dtype=np.float32)
    expected = [x[i - low] if 0 <= i - low < 20 else 7 for i in range(size)]
    np.testing.assert_array_equal(_run(text, x, np.array(7, np.float32)), expected)


def test_attention_of_no_depth() -> None:
    """All scores are 0, so that each row is the mean of the values."""
    text = """func.func @main(%q: tensor<1x4x0xf32>, %k: tensor<1x5x0xf32>, %v: tensor<1x5x3xf32>)
        -> tensor<1x4x3xf32> {
      %e = tensor.empty() : tensor<1x4x3xf32>
      %r = tm_tensor.attention ins(%q, %k, %v
          : tensor<1x4x0xf32>, tensor<1x5x0xf32>, tensor<1x5x3xf32>)
        outs(%e : tensor<1x4x3xf32>) -> tensor<1x4x3xf32>
      return %r : tensor<1x4x3xf32> }"""
    v = np.arange(15, dtype=np.float32).reshape(1, 5, 3)
    found = _run(text, np.zeros((1, 4, 0), np.float32), np.zeros((1, 5, 0), np.float32), v)
    np.testing.assert_allclose(found, v.mean(axis=1, keepdims=True).repeat(4, axis=1), rtol=1e-6)


def test_loops_within_loops_are_unrolled_together() -> None:
    """The limit of an unrolled loop counts the loops in it: 8,000 sines stay a loop."""
    text = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %c0 = arith.constant 0 : index  %c1 = arith.constant 1 : index
      %n = arith.constant 20 : index
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x) -> (tensor<8xf32>) {
        %r1 = scf.for %j = %c0 to %n step %c1 iter_args(%t = %s) -> (tensor<8xf32>) {
          %r2 = scf.for %k = %c0 to %n step %c1 iter_args(%u = %t) -> (tensor<8xf32>) {
            %v = math.sin %u : tensor<8xf32>
            scf.yield %v : tensor<8xf32> }
          scf.yield %r2 : tensor<8xf32> }
        scf.yield %r1 : tensor<8xf32> }
      return %r : tensor<8xf32> }"""
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    expected = x.astype(np.float64)
    for _ in range(8000):
        expected = np.sin(expected)
    np.testing.assert_allclose(_run(text, x), expected, rtol=1e-3)


@pytest.mark.parametrize("num_veus", [2, 8])
def test_a_mask_of_rows_that_are_read_one_by_one(num_veus: int) -> None:
    """A product whose rows are read one by one is split; a mask by indices counts all rows."""
    rows = 40
    weights = np.random.default_rng(0).standard_normal((32, 24)).astype(np.float32)
    kind = f"tensor<{rows}x24xf32>"
    parts = [
        f"%s{n} = tensor.extract_slice %r[{rows - 1 - n}, 0] [1, 24] [1, 1] "
        f": {kind} to tensor<1x24xf32>"
        for n in range(rows)
    ]
    names = ", ".join(f"%s{n}" for n in range(rows))
    kinds = ", ".join(["tensor<1x24xf32>"] * rows)
    text = f"""func.func @main(%x: tensor<{rows}x32xf32>) -> {kind} {{
      %w = arith.constant dense<{_dense(weights)}> : tensor<32x24xf32>
      %z = arith.constant 0.0 : f32
      %e = tensor.empty() : {kind}
      %f = linalg.fill ins(%z : f32) outs(%e : {kind}) -> {kind}
      %m = linalg.matmul ins(%x, %w : tensor<{rows}x32xf32>, tensor<32x24xf32>)
        outs(%f : {kind}) -> {kind}
      %r = linalg.map ins(%m : {kind}) outs(%e : {kind}) (%a: f32, %o: f32) {{
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %c = arith.cmpi sge, %i, %j : index
        %s = arith.select %c, %a, %z : f32
        linalg.yield %s : f32 }}
      {chr(10).join(parts)}
      %c = tensor.concat dim(0) {names} : ({kinds}) -> {kind}
      return %c : {kind} }}"""
    x = np.random.default_rng(1).standard_normal((rows, 32)).astype(np.float32)
    with rammer_mlir.compile(text, cache=False, num_veus=num_veus) as made:
        np.testing.assert_allclose(made(x), np.tril(x @ weights)[::-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(3, 3), (2, 3)])
def test_zero_points_of_a_transposed_batch(sizes: tuple[int, int]) -> None:
    """The batch is not the first dimension of the data, as in a ``dot_general``."""
    rows, batch = sizes
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 127, (batch, 16, 5)).astype(np.int8)
    x = rng.integers(-128, 127, (rows, batch, 16)).astype(np.int8)
    whole, wide = f"tensor<{batch}x16x5x", f"tensor<{batch}x{rows}x5xi32>"
    text = f"""
    #a = affine_map<(a, b, c) -> (a, b, c)>
    #c = affine_map<(a, b, c) -> (c)>
    #x = affine_map<(b, m, n, k) -> (m, b, k)>
    #w = affine_map<(b, m, n, k) -> (b, k, n)>
    #r = affine_map<(b, m, n, k) -> (b, m, n)>
    func.func @main(%x: tensor<{rows}x{batch}x16xi8>, %q: tensor<5xi8>) -> {wide} {{
      %w = arith.constant dense<{_dense(weights)}> : {whole}i8>
      %z = arith.constant 0 : i32
      %ew = tensor.empty() : {whole}i32>
      %dw = linalg.generic {{indexing_maps = [#a, #c, #a],
          iterator_types = ["parallel", "parallel", "parallel"]}}
          ins(%w, %q : {whole}i8>, tensor<5xi8>) outs(%ew : {whole}i32>) {{
        ^bb0(%a: i8, %b: i8, %o: i32):
          %c = arith.extsi %a : i8 to i32
          %d = arith.extsi %b : i8 to i32
          %s = arith.subi %c, %d : i32
          linalg.yield %s : i32 }} -> {whole}i32>
      %e = tensor.empty() : {wide}
      %f = linalg.fill ins(%z : i32) outs(%e : {wide}) -> {wide}
      %r = linalg.generic {{indexing_maps = [#x, #w, #r],
          iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
          ins(%x, %dw : tensor<{rows}x{batch}x16xi8>, {whole}i32>) outs(%f : {wide}) {{
        ^bb0(%a: i8, %b: i32, %o: i32):
          %c = arith.extsi %a : i8 to i32
          %p = arith.muli %c, %b : i32
          %s = arith.addi %o, %p : i32
          linalg.yield %s : i32 }} -> {wide}
      return %r : {wide} }}"""
    zeros = np.array([3, -2, 0, 7, 1], np.int8)
    shifted = weights.astype(np.int32) - zeros
    expected = np.einsum("mbk,bkn->bmn", x.astype(np.int32), shifted)
    np.testing.assert_array_equal(_run(text, x, zeros), expected)

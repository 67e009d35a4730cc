"""Tests that long sums are cut into pieces, and equal the sums without pieces bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.lowering.cpu import kernels_to_llvm
from rammer_mlir.lowering.cpu.long_reductions import split_long_reductions
from rammer_mlir.lowering.ir_walk import walk


def _product(rows: int, length: int, columns: int, *, image: bool) -> onnx.ModelProto:
    """Return a model of a product with constant weights, and a ReLU.

    The left operand is a matrix, or with ``image`` the pixels of an image (a 1x1 convolution).
    """
    rng = np.random.default_rng(length)
    if image:
        shape, node, kernel = [1, length, rows // 8, 8], "Conv", (columns, length, 1, 1)
    else:
        shape, node, kernel = [rows, length], "MatMul", (length, columns)
    weights = numpy_helper.from_array(rng.standard_normal(kernel).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node(node, ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _loops(function: Any) -> int:
    return sum(operation.name == "scf.for" for operation in walk(function))


@pytest.mark.parametrize(
    ("rows", "length", "columns", "image", "is_cut"),
    [
        (56, 3200, 64, False, True),
        (40, 3200, 96, False, True),
        (64, 4096, 32, True, True),
        (64, 3216, 32, True, True),
        (72, 3216, 48, True, True),  # tiles whose sizes only the run knows
        (120, 3209, 70, False, True),  # pieces and a rest
    ],
)
def test_pieces_add_up(
    rows: int,
    length: int,
    columns: int,
    image: bool,
    is_cut: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = _product(rows, length, columns, image=image)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(rows).standard_normal(shape).astype(np.float32)
    weights = numpy_helper.to_array(model.graph.initializer[0])
    pieces: list[int] = []

    def split(function: Any, vector_bits: int) -> None:
        before = _loops(function)
        split_long_reductions(function, vector_bits)
        pieces.append(_loops(function) - before)

    monkeypatch.setattr(kernels_to_llvm, "split_long_reductions", split)
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        found = executable.run({"x": x})["y"]
    assert (sum(pieces) > 0) == is_cut
    wide, kernel = x.astype(np.float64), weights.astype(np.float64)
    sums = np.einsum("nchw,fc->nfhw", wide, kernel[:, :, 0, 0]) if image else wide @ kernel
    np.testing.assert_allclose(found, np.maximum(sums, 0), rtol=1e-4, atol=1e-3)
    # Added up in the same order, so that not a bit differs from the sum in one piece.

    def leave(function: object, vector_bits: int) -> None:
        """Leave long sums uncut, in place of the function that cuts them into pieces."""

    monkeypatch.setattr(kernels_to_llvm, "split_long_reductions", leave)
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        assert np.array_equal(executable.run({"x": x})["y"], found)


@pytest.mark.parametrize(("rows", "length", "columns"), [(16, 700, 1100), (40, 657, 1003)])
def test_rows_on_other_pages_are_read_in_pieces(
    rows: int, length: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _product(rows, length, columns, image=False)
    weights = numpy_helper.to_array(model.graph.initializer[0])
    model.graph.input.append(
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [length, columns])
    )
    del model.graph.initializer[:]
    pieces: list[int] = []

    def split(function: Any, vector_bits: int) -> None:
        before = _loops(function)
        split_long_reductions(function, vector_bits)
        pieces.append(_loops(function) - before)

    monkeypatch.setattr(kernels_to_llvm, "split_long_reductions", split)
    x = np.random.default_rng(rows).standard_normal((rows, length)).astype(np.float32)
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        found = executable.run({"x": x, "w": weights})["y"]
    assert sum(pieces) > 0
    sums = x.astype(np.float64) @ weights.astype(np.float64)
    np.testing.assert_allclose(found, np.maximum(sums, 0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("length", "is_cut"), [(1024, False), (1031, False), (4096, True)])
def test_dot_products_have_long_pieces(
    length: int, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dot products of contiguous rows are cut into pieces only if they are long.

    Both operands are contiguous along the sum, so that the lanes must be added up after each piece.
    With more rows, the right operand would be transposed first.
    """
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [30, length]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [50, length]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    rng = np.random.default_rng(length)
    feeds = {
        name: rng.standard_normal([size, length]).astype(np.float32)
        for name, size in (("x", 30), ("w", 50))
    }
    pieces: list[int] = []

    def split(function: Any, vector_bits: int) -> None:
        before = _loops(function)
        split_long_reductions(function, vector_bits)
        pieces.append(_loops(function) - before)

    monkeypatch.setattr(kernels_to_llvm, "split_long_reductions", split)
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        found = executable.run(feeds)["y"]
    assert (sum(pieces) > 0) == is_cut
    x, w = (feeds[name].astype(np.float64) for name in "xw")
    np.testing.assert_allclose(found, x @ w.T, rtol=1e-4, atol=1e-3)


def test_sums_that_read_their_loop_index() -> None:
    """A sum whose body selects by the index of the reduction loop is not cut."""
    rows, length, columns = 8, 4096, 512
    a, b, c = (
        f"tensor<{rows}x{length}xf32>",
        f"tensor<{length}x{columns}xf32>",
        (f"tensor<{rows}x{columns}xf32>"),
    )
    text = f"""func.func @main(%a: {a}, %b: {b}) -> {c} {{
      %zero = arith.constant 0.0 : f32
      %limit = arith.constant 1000 : index
      %empty = tensor.empty() : {c}
      %zeros = linalg.fill ins(%zero: f32) outs(%empty: {c}) -> {c}
      %sums = linalg.generic {{
        indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
                         affine_map<(i, j, k) -> (i, j)>],
        iterator_types = ["parallel", "parallel", "reduction"]
      }} ins(%a, %b: {a}, {b}) outs(%zeros: {c}) {{
      ^bb0(%x: f32, %y: f32, %sum: f32):
        %k = linalg.index 2 : index
        %is_kept = arith.cmpi ult, %k, %limit : index
        %kept = arith.select %is_kept, %x, %zero : f32
        %product = arith.mulf %kept, %y : f32
        %next = arith.addf %sum, %product : f32
        linalg.yield %next : f32
      }} -> {c}
      return %sums : {c}
    }}"""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, length)).astype(np.float32)
    y = rng.standard_normal((length, columns)).astype(np.float32)
    with rammer_mlir.compile(text, num_veus=1, cache=False) as executable:
        (found,) = executable.run({"arg0": x, "arg1": y}).values()
    np.testing.assert_allclose(found, x[:, :1000] @ y[:1000], rtol=1e-4, atol=1e-3)

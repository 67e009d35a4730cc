"""Tests that small valid graphs are right: reductions of views, and tensors without elements."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from node_checks import expected_outputs

import rammer_mlir

VIEWS = {
    "Tile, ArgMax": """g (float[7,6,3] x) => (int64[14,1,3] y) <int64[3] r={2,3,1}>
        { t = Tile(x, r)
          y = ArgMax<axis=1>(t) }""",
    "Tile, Relu, ArgMax": """g (float[7,6] x) => (int64[7,1] y) <int64[2] r={1,3}>
        { t = Tile(x, r)
          u = Relu(t)
          y = ArgMax<axis=1>(u) }""",
    "Tile, ArgMin": """g (float[7,6] x) => (int64[1,18] y) <int64[2] r={1,3}>
        { t = Tile(x, r)
          y = ArgMin<axis=0>(t) }""",
    "DepthToSpace, ArgMin": """g (float[2,9,4,3] x) => (int64[2,1,12,1] y)
        { t = DepthToSpace<blocksize=3>(x)
          y = ArgMin<axis=-1>(t) }""",
    "SpaceToDepth, Relu, ArgMax": """g (float[1,3,4,4] x) => (int64[1,1,2,2] y)
        { t = SpaceToDepth<blocksize=2>(x)
          u = Relu(t)
          y = ArgMax<axis=1>(u) }""",
    "Concat, ArgMax": """g (float[7,6] x) => (int64[7,1] y)
        { t = Concat<axis=1>(x, x)
          y = ArgMax<axis=1>(t) }""",
    "Expand, TopK": """g (float[7,1] x) => (float[7,2] y, int64[7,2] i)
        <int64[2] r={7,3}, int64[1] k={2}>
        { t = Expand(x, r)
          y, i = TopK(t, k) }""",
    "EyeLike, Slice": """g (float[4,6] x) => (float[2,3] y)
        <int64[2] a={1,0}, int64[2] b={3,6}, int64[2] d={0,1}, int64[2] s={1,2}>
        { e = EyeLike(x)
          t = Slice(x, a, b, d, s)
          u = Slice(e, a, b, d, s)
          y = Sub(t, u) }""",
}


def _of_a_product(axes: list[int], keep: int) -> str:
    shape = [size for axis, size in enumerate((2, 5, 6)) if keep or axis not in axes]
    return f"""g (float[2,5,7] x, float[7,6] w) => (float[{",".join(map(str, shape))}] y)
        <int64[{len(axes)}] a={{{",".join(map(str, axes))}}}>
        {{ p = MatMul(x, w)
           m = ReduceMax<keepdims={keep}>(p, a)
           y = {"Sub(p, m)" if keep else "Relu(m)"} }}"""


OF_PRODUCTS = {
    f"MatMul, ReduceMax {axes} {keep}": _of_a_product(axes, keep)
    for axes in ([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2])
    for keep in (0, 1)
}

EMPTY = {
    "CumSum of zeros": """g (double[1,5] x) => (double[1,5] y) <int64 a={0}, int64 b={-1}>
        { t = CumSum<exclusive=1>(x, a)
          y = CumSum(t, b) }""",
    "ReduceSum": "g (float[8,0,2] x) => (float[1,1,1] y) { y = ReduceSum<keepdims=1>(x) }",
    "ReduceProd": "g (float[8,0] x) => (float[8] y) <int64[1] a={1}> "
    "{ y = ReduceProd<keepdims=0>(x, a) }",
    "ReduceSum, ReduceMax": """g (float[8,0,2] x) => (float[8,1,1] y)
        <int64[1] a={1}, int64[1] b={2}>
        { t = ReduceSum(x, a)
          y = ReduceMax(t, b) }""",
    "MatMul, ArgMax": """g (float[3,0] x, float[0,4] w) => (int64[3,1] y)
        { t = MatMul(x, w)
          y = ArgMax<axis=1>(t) }""",
    "Pad": "g (float[7,1] x) => (float[9,0] y) <int64[4] p={0,-2,2,1}> { y = Pad(x, p) }",
    "Pad that takes off more than there is": "g (float[0,3] x) => (float[4,3] y) "
    "<int64[4] p={-1,0,5,0}> { y = Pad(x, p) }",
    "Pad with a border of the run": "g (float[1,3] x, float v) => (float[4,3] y) "
    "<int64[4] p={-2,0,5,0}> { y = Pad(x, p, v) }",
    "Pad of nothing": "g (float[2,0] x) => (float[2,3] y) <int64[4] p={0,1,0,2}> { y = Pad(x, p) }",
    "Resize": """g (float[7,0,9] x) => (float[7,0,6] y) <int64[3] k={7,0,6}>
        { y = Resize(x, , , k) }""",
    "Resize of an axis": """g (float[7,0,9] x) => (float[7,0,9] y) <int64[1] k={0}>
        { y = Resize<axes=[-2]>(x, , , k) }""",
    "Einsum": """g (double[7,0] x, double[1,2] w) => (double[7,2] y)
        { y = Einsum<equation="ij,jk->ik">(x, w) }""",
    "Concat": """g (float[2,3,0] x, float[2,1,0] w) => (float[2,4,0] y)
        { y = Concat<axis=1>(x, w) }""",
    "Concat with nothing": """g (float[2,0] x, float[2,3] w) => (float[2,3] y)
        { y = Concat<axis=1>(x, w) }""",
    "Gather": """g (float[4,0] x, int64[0] i) => (float[0,0] y, float[2,0] z) <int64[2] j={3,1}>
        { y = Gather(x, i)
          z = Gather(x, j) }""",
    "Softmax": "g (float[4,0] x) => (float[4,0] y) { y = Softmax<axis=0>(x) }",
    "Transpose": "g (float[4,0,3] x) => (float[3,4,0] y) { y = Transpose<perm=[2,0,1]>(x) }",
    "Split": """g (float[4,3] x) => (float[4,0] y, float[4,3] z) <int64[2] s={0,3}>
        { y, z = Split<axis=1>(x, s) }""",
    "ScatterElements": """g (float[4,3] x, int64[0,3] i, float[0,3] u) => (float[4,3] y)
        { y = ScatterElements<axis=0>(x, i, u) }""",
}


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version:8, opset_import:["":21]> {text}')


def check(text: str) -> None:
    model = parsed(text)
    random = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        shape = [dim.dim_value for dim in tensor.shape.dim]
        feeds[value.name] = random.standard_normal(shape).astype(kind)
    expected = expected_outputs(model, feeds).values()
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        found = executable.run(feeds)
    for value, wanted in zip(found.values(), expected, strict=True):
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", VIEWS.values(), ids=list(VIEWS))
def test_views_in_front_of_reductions(text: str) -> None:
    check(text)


@pytest.mark.parametrize("text", OF_PRODUCTS.values(), ids=list(OF_PRODUCTS))
def test_reductions_of_products(text: str) -> None:
    check(text)


@pytest.mark.parametrize("text", EMPTY.values(), ids=list(EMPTY))
def test_tensors_without_elements(text: str) -> None:
    check(text)


def test_the_mean_of_nothing_is_no_number() -> None:
    """The mean of no elements is NaN, as in NumPy; ONNX does not define it."""
    model = parsed("g (float[8,0,2] x) => (float[1,1,1] y) { y = ReduceMean<keepdims=1>(x) }")
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        assert np.isnan(executable.run({"x": np.zeros((8, 0, 2), np.float32)})["y"]).all()


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_updates_at_computed_places_of_a_large_tensor(reduction: str) -> None:
    """ScatterND with computed indices updates its large result in place, without a second copy."""
    model = parsed(
        f"""g (float[1100,1000] x, int64[5000,2] i, float[5000] u) => (float[1100,1000] y)
        {{ y = ScatterND<reduction="{reduction}">(x, i, u) }}"""
    )
    random = np.random.default_rng(0)
    data = random.standard_normal((1100, 1000)).astype("f4")
    places, updates = random.integers(-1000, 1000, (5000, 2)), random.random(5000, "f4")
    expected = data.copy()
    for place, update in zip(places, updates, strict=True):
        expected[tuple(place)] = update + (expected[tuple(place)] if reduction == "add" else 0)
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        found = executable.run({"x": data, "i": places, "u": updates})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)

"""Tests that operators that gather, scatter, sort or accumulate elements are right.

Einsum and unpooling are tested, too.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from node_checks import check_node, floats, node_model, run_node

import rammer_mlir
from rammer_mlir.frontends.onnx.builders import scattering

INDICES = np.array([[0, -1, 2], [1, 1, -3]], np.int64)
SEARCHES = pytest.mark.parametrize("largest_search", [0, 1 << 22], ids=["loops", "search"])
REDUCTIONS = pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("constants", [(), (1,)])
def test_gather(axis: int, constants: tuple[int, ...]) -> None:
    check_node("Gather", [floats(3, 4, 5), INDICES], axis=axis, constants=constants)


@pytest.mark.parametrize("indices", [np.array(2), np.array([1, 2]), np.array([-2, -1])])
def test_constant_neighbors_are_a_view(indices: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    text = check_node("Gather", [floats(3, 4), indices], constants=[1])
    assert "tensor.extract_slice" in text
    assert "linalg.generic" not in text


def test_indices_out_of_range_read_nothing_else() -> None:
    x = floats(3, 2)
    found = run_node("Gather", [x, np.array([7, -9, 1], np.int64)])["out0"]
    np.testing.assert_array_equal(found, x[[2, 0, 1]])


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis: int) -> None:
    check_node("GatherElements", [floats(3, 3), INDICES], axis=axis)


@pytest.mark.parametrize(
    ("shape", "indices", "batch"),
    [
        ((3, 4), [[0, 1], [-1, 2]], 0),
        ((3, 4, 2), [[0], [2]], 0),
        ((2, 3, 4), [[1], [0]], 1),
        ((3, 4), [2, 1], 0),
        ((2, 3, 4), [[[1, 3]], [[0, -2]]], 1),
    ],
)
def test_gather_nd(shape: tuple[int, ...], indices: list[Any], batch: int) -> None:
    check_node("GatherND", [floats(*shape), np.array(indices, np.int64)], batch_dims=batch)


@pytest.mark.parametrize("steps", [[1, 1, -1], [2, 1, -2], [1, -1, 1], [-1, -1, -1]])
def test_slices_that_run_backwards_in_some_dimensions(steps: list[int]) -> None:
    """Slices with negative steps in some dimensions and positive steps in others are right."""
    starts = [0 if step > 0 else 9 for step in steps]
    ends = [3 if step > 0 else -9 for step in steps]
    bounds = [np.array(values) for values in (starts, ends, [0, 1, 2], steps)]
    check_node("Slice", [floats(4, 5, 6), *bounds], constants=[1, 2, 3, 4])
    bounds[0] = np.array([1 if step > 0 else 3 for step in steps])
    check_node("Slice", [floats(4, 5, 6), *bounds], constants=[1, 2, 3, 4])


@REDUCTIONS
def test_nothing_to_scatter(reduction: str) -> None:
    x, none, updates = floats(3, 4), np.zeros((0, 1), np.int64), floats(0, 4)
    model = node_model("ScatterND", [x, none, updates], reduction=reduction)
    with rammer_mlir.compile(model) as executable:
        np.testing.assert_array_equal(executable(x, none, updates), x)


@SEARCHES
@REDUCTIONS
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(
    reduction: str, axis: int, largest_search: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scattering, "_LARGEST_SEARCH", largest_search)
    x, updates = floats(3, 5), floats(2, 3, seed=1)
    indices = np.array([[0, 2, -1], [1, 0, 2]], np.int64)
    text = check_node("ScatterElements", [x, indices, updates], axis=axis, reduction=reduction)
    assert ("scf.for" in text) == (largest_search == 0)


@SEARCHES
@REDUCTIONS
@pytest.mark.parametrize(
    ("indices", "rest"), [([[1], [-2]], (4,)), ([[0, 1], [2, -1]], ()), ([[[0, 0]], [[1, 3]]], ())]
)
def test_scatter_nd(
    reduction: str,
    indices: list[Any],
    rest: tuple[int, ...],
    largest_search: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scattering, "_LARGEST_SEARCH", largest_search)
    places = np.array(indices, np.int64)
    updates = floats(*places.shape[:-1], *rest, seed=1)
    check_node("ScatterND", [floats(3, 4), places, updates], reduction=reduction)


@pytest.mark.parametrize("axis", [0, 1])
def test_constant_indices_need_no_search(axis: int) -> None:
    indices = np.array([[0, 2, -1], [1, 0, 2]], np.int64)
    elements = [floats(3, 5), indices, floats(2, 3, seed=1)]
    assert '"reduction"' not in check_node("ScatterElements", elements, constants=[1], axis=axis)
    slices = [floats(3, 5), np.array([[2], [0]], np.int64), floats(2, 5, seed=1)]
    assert '"reduction"' not in check_node("ScatterND", slices, constants=[1])


@SEARCHES
def test_updates_out_of_range_write_nothing(
    largest_search: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scattering, "_LARGEST_SEARCH", largest_search)
    indices = np.array([[3], [-4], [1]], np.int64)
    updates = np.array([1, 2, 3], np.float32)
    found = run_node("ScatterND", [np.zeros(3, np.float32), indices, updates])["out0"]
    np.testing.assert_array_equal(found, [0, 3, 0])


def test_of_equal_indices_the_last_update_stays() -> None:
    updates = np.array([1, 2, 3], np.float32)
    indices = np.array([[1], [1], [1]], np.int64)
    found = run_node("ScatterND", [np.zeros(3, np.float32), indices, updates])["out0"]
    np.testing.assert_array_equal(found, [0, 3, 0])


def test_many_updates_through_the_whole_compiler() -> None:
    x, updates = floats(3000), floats(2000, seed=1)
    indices = np.random.default_rng(2).integers(0, 3000, (2000, 1))
    model = node_model("ScatterND", [x, indices, updates], reduction="add")
    executable = rammer_mlir.compile(model, num_veus=2)
    given, expected = x.copy(), x.copy()
    np.add.at(expected, indices[:, 0], updates)
    found = executable.run({"in0": given, "in1": indices, "in2": updates})["out0"]
    assert np.allclose(found.astype(np.float64), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(given, x)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(axis: int, largest: int) -> None:
    x = np.round(floats(5, 6, 4) * 2)
    k = np.array([3], np.int64)
    check_node("TopK", [x, k], constants=[1], outputs=2, axis=axis, largest=largest)


def _first(x: np.ndarray, count: int, largest: int) -> np.ndarray:
    """Return the indices of the ``count`` elements of each row that TopK selects, in order.

    Rows are sorted by value, from the greatest if ``largest`` is 1; NaN is greater than all
    numbers.
    """
    if x.dtype.kind == "f":
        numbers = np.where(np.isnan(x), np.inf, x).astype(np.float64)
        return np.lexsort([-numbers, ~np.isnan(x)] if largest else [numbers, np.isnan(x)])[
            :, :count
        ]
    exact = x.astype(object)
    ranks = np.searchsorted(np.unique(exact), exact)
    return np.argsort(-ranks if largest else ranks, axis=-1, kind="stable")[:, :count]


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("rows", "length", "count"), [(2, 300, 7), (3, 400, 400), (1, 5000, 1)])
@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "int64", "int8", "int16", "uint8", "uint32", "uint64"],
)
def test_top_k_of_long_rows_selects_by_bits(
    dtype: str, rows: int, length: int, count: int, largest: int
) -> None:
    """TopK of long rows is right for equal elements, extreme values, NaN, infinities and -0.0."""
    rng = np.random.default_rng(length)
    x = rng.integers(0, 60, (rows, length)).astype(dtype)
    if x.dtype.kind == "f":
        x -= 30
        x[rng.random(x.shape) < 0.1] *= -1  # zeros of both signs
        for value in (np.nan, -np.nan, np.inf, -np.inf):
            x.flat[rng.integers(0, x.size, 3)] = value
    else:
        limits = np.iinfo(x.dtype)
        for value in (limits.min, limits.max):
            x.flat[rng.integers(0, x.size, 3)] = value
    feeds = [x, np.array([count], np.int64)]
    found = run_node("TopK", feeds, constants=[1], outputs=2, largest=largest)
    expected = _first(x, count, largest)
    np.testing.assert_array_equal(found["out1"], expected)
    np.testing.assert_array_equal(found["out0"], np.take_along_axis(x, expected, -1))


def test_top_k_of_a_long_row_compares_no_pairs() -> None:
    x = np.round(floats(2, 5000) * 50)
    text = check_node("TopK", [x, np.array([3], np.int64)], constants=[1], outputs=2)
    assert "5000x5000" not in text


def test_top_k_takes_nan_for_the_largest() -> None:
    x = np.array([1, np.nan, 3, np.nan, 2], np.float32)
    found = run_node("TopK", [x], opset=1, k=3, outputs=2)
    np.testing.assert_array_equal(found["out1"], [1, 3, 2])
    np.testing.assert_array_equal(found["out0"], [np.nan, np.nan, 3])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_cumulative_sum(axis: int, exclusive: int, reverse: int, length: int) -> None:
    shape = (length, 3) if axis == 0 else (3, length)
    inputs = [floats(*shape), np.array(axis, np.int64)]
    check_node("CumSum", inputs, constants=[1], exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sums_of_16_bits_are_rounded_once(
    dtype: type[Any], columns: int, reverse: int
) -> None:
    """Each prefix sum is the sum of float64, except for a single rounding to 16 bits."""
    x = floats(300, columns).astype(dtype)
    inputs = [x, np.array(0, np.int64)]
    found = run_node("CumSum", inputs, constants=[1], reverse=reverse)["out0"]
    step = -1 if reverse else 1
    exact = np.cumsum(x.astype(np.float64)[::step], 0)[::step]
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=epsilon / 2, atol=1e-4)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(
    ("length", "blocks", "size"),
    [(1, 1, 1), (2, 1, 2), (16, 1, 16), (17, 3, 8), (36, 3, 12), (251, 32, 8), (300, 20, 15)],
)
def test_cumulative_sum_across_vectors_goes_block_by_block(
    exclusive: int, reverse: int, length: int, blocks: int, size: int
) -> None:
    """A cumulative sum over a long axis is computed in blocks of the axis, padded if necessary.

    An axis with many blocks has blocks of blocks.
    """
    inputs = [floats(2, length, 3, 3), np.array(1, np.int64)]
    text = check_node("CumSum", inputs, constants=[1], exclusive=exclusive, reverse=reverse)
    assert blocks == 1 or f"tensor<2x{blocks}x{size}x3x3xf32>" in text


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (1, 4, 5)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->ji", [(3, 4)]),
        ("ij->i", [(3, 4)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]),
        ("ij,ij,j->", [(3, 4), (3, 4), (4,)]),
        ("b...->b", [(2, 3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [floats(*shape, seed=i) for i, shape in enumerate(shapes)]
    check_node("Einsum", inputs, equation=equation)


@pytest.mark.parametrize(("space", "pads"), [((7, 8), [0, 0, 0, 0]), ((6, 7), [1, 0, 0, 1])])
def test_max_unpool_undoes_max_pool(space: tuple[int, int], pads: list[int]) -> None:
    attributes: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": pads}
    pooled = run_node("MaxPool", [floats(1, 2, *space)], outputs=2, **attributes)
    check_node("MaxUnpool", [pooled["out0"], pooled["out1"]], **attributes)


@pytest.mark.parametrize(("start", "end"), [(-10, -20), (-10, -3), (-1, -20), (9, -20)])
@pytest.mark.parametrize("constants", [[1, 2, 3, 4], [0, 1, 2, 3, 4]])
def test_a_backward_slice_begins_at_an_element(start: int, end: int, constants: list[int]) -> None:
    """If the step is negative, a start before the first element stands for the first element."""
    bounds = [np.array([value]) for value in (start, end, 0, -1)]
    x = np.arange(5, dtype=np.float32)
    found = run_node("Slice", [x, *bounds], constants=constants)["out0"]
    first = 4 if start > 0 else max(start + 5, 0)
    assert found.tolist() == [float(index) for index in range(first, max(end + 5, -1), -1)]

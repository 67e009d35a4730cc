"""Tests that operations of torch-mlir's dialect TMTensor give NumPy's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

import rammer_mlir
from rammer_mlir.errors import RammerError
from rammer_mlir.passes.legalization import scatters

Array = NDArray[Any]

ELEMENTS: dict[str, DTypeLike] = {"f32": np.float32, "i32": np.int32, "i64": np.int64}


def kind(shape: Sequence[int], element: str) -> str:
    """Return the text of a tensor type."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def outputs(text: str, *inputs: Array) -> list[Array]:
    """Return the results of a module's function."""
    with rammer_mlir.compile(text, num_veus=2, cache=False) as exe:
        found = exe.run({f"arg{n}": np.asarray(value) for n, value in enumerate(inputs)})
    return [np.asarray(value) for value in found.values()]


def scan_text(
    shape: Sequence[int], axis: int, inclusive: bool, element: str, operation: str
) -> str:
    """Return the text of a function with one ``tm_tensor.scan``.

    The scan's initial accumulator is an argument of the function. ``operation`` is the operation of
    the arith dialect that combines two elements, such as "addi".
    """
    given = kind(shape, element)
    rest = kind([*shape[:axis], *shape[axis + 1 :]], element)
    return f"""
    func.func @f(%x: {given}, %start: {rest}) -> ({given}, {rest}) {{
      %empty = tensor.empty() : {given}
      %r:2 = tm_tensor.scan dimension({axis}) inclusive({str(inclusive).lower()})
          ins(%x : {given}) outs(%empty, %start : {given}, {rest}) {{
      ^bb0(%before: {element}, %now: {element}):
        %c = arith.{operation} %before, %now : {element}
        tm_tensor.yield %c : {element}
      }} -> {given}, {rest}
      return %r#0, %r#1 : {given}, {rest}
    }}"""


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "operation", "function"),
    [
        ((7,), 0, "addi", np.add),
        ((1,), 0, "addi", np.add),
        ((3, 70), 1, "addi", np.add),
        ((9, 3), 0, "muli", np.multiply),
        ((2, 1, 3), 1, "addi", np.add),
        ((2, 6, 3), 1, "maxsi", np.maximum),
        ((2, 3, 16), 2, "addf", np.add),
        ((5, 2, 3), 0, "mulf", np.multiply),
    ],
)
def test_scan(
    shape: tuple[int, ...], axis: int, operation: str, function: np.ufunc, inclusive: bool
) -> None:
    random = np.random.default_rng(0)
    element = "f32" if operation.endswith("f") else "i64"
    dtype = ELEMENTS[element]
    x = random.integers(1, 4, shape).astype(dtype)
    start = random.integers(1, 4, np.delete(shape, axis)).astype(dtype)
    found, last = outputs(scan_text(shape, axis, inclusive, element, operation), x, start)
    if not inclusive:
        front = np.take(x, range(shape[axis] - 1), axis)
        x = np.concatenate([np.expand_dims(start, axis), front], axis)
    wanted = function.accumulate(x, axis)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    # torch-mlir's own lowering stores no accumulator at the first element.
    np.testing.assert_allclose(last, start if shape[axis] == 1 else np.take(wanted, -1, axis))


def scatter_text(
    shape: Sequence[int], updates: Sequence[int], dims: Sequence[int], element: str, body: str
) -> str:
    """Return the text of a function with one ``tm_tensor.scatter``.

    Args:
        shape: shape of the tensor into which updates are written.
        updates: shape of the updates; its first size is their number.
        dims: the dimensions of the tensor to which the indices belong.
        element: element type of the tensor and the updates.
        body: text of the scatter's body without the type of ``tm_tensor.yield``.
    """
    result, given = kind(shape, element), kind(updates, element)
    index = kind([updates[0], len(dims)], "i64")
    return f"""
    func.func @f(%t: {result}, %i: {index}, %u: {given}) -> {result} {{
      %two = arith.constant 2 : i32
      %s = tm_tensor.scatter {{dimension_map = array<i64: {", ".join(map(str, dims))}>}}
          unique_indices(false) ins(%u, %i : {given}, {index}) outs(%t : {result}) {{
      ^bb0(%new: {element}, %old: {element}):
        {body} : {element}
      }} -> {result}
      return %s : {result}
    }}"""


BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "%r = arith.addi %old, %new : i32\ntm_tensor.yield %r": lambda old, new: old + new,
    "%r = arith.minsi %old, %new : i32\ntm_tensor.yield %r": min,
    "tm_tensor.yield %new": lambda old, new: new,
    "%p = arith.muli %old, %two : i32\n%r = arith.addi %p, %new : i32\ntm_tensor.yield %r": (
        lambda old, new: 2 * old + new
    ),
}


@pytest.mark.parametrize("is_loop", [False, True], ids=["reduction", "loop"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("shape", "updates", "dims"),
    [
        ((6,), (9,), (0,)),
        ((4, 3), (9,), (0, 1)),
        ((4, 3), (9,), (1, 0)),
        ((4, 3), (5, 3), (0,)),
        ((4, 6), (5, 2), (0, 1)),  # windows of two elements at an index
        ((4, 3, 5), (4, 2, 4), (0, 2)),
        ((5, 4), (3, 2, 2), (1,)),
    ],
)
def test_scatter(
    shape: tuple[int, ...],
    updates: tuple[int, ...],
    dims: tuple[int, ...],
    body: str,
    is_loop: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ways to compute a scatter are right, with repeated indices and indices out of range."""
    if is_loop:
        monkeypatch.setattr(scatters, "_MOST_TESTS", 0)
        monkeypatch.setattr(scatters, "_TESTS_PER_UPDATE", 0)
    random = np.random.default_rng(0)
    t = random.integers(-9, 9, shape).astype(np.int32)
    u = random.integers(-9, 9, updates).astype(np.int32)
    ends = [shape[d] for d in dims]
    i = random.integers(-1, [end + 1 for end in ends], (updates[0], len(dims)))
    (found,) = outputs(scatter_text(shape, updates, dims, "i32", body), t, i, u)
    wanted = t.copy()
    window = len(updates) - 1
    for at in np.ndindex(*updates):
        place = [0] * (len(shape) - window) + list(at[1:])
        for number, dimension in enumerate(dims):
            place[dimension] += int(i[at[0], number])
        if all(0 <= p < size for p, size in zip(place, shape, strict=True)):
            wanted[tuple(place)] = BODIES[body](wanted[tuple(place)], u[at])
    np.testing.assert_array_equal(found, wanted)


def test_scatter_of_a_number_that_is_cast() -> None:
    """A scatter is right if the number of its updates is static only in the operand of a cast.

    torch-mlir leaves such casts.
    """
    text = """
    func.func @f(%t: tensor<5xi32>, %i: tensor<3x1xi64>, %u: tensor<3xi32>) -> tensor<5xi32> {
      %v = tensor.cast %u : tensor<3xi32> to tensor<?xi32>
      %zero = arith.constant 0 : index
      %n = tensor.dim %v, %zero : tensor<?xi32>
      %j = tensor.extract_slice %i[0, 0] [%n, 1] [1, 1] : tensor<3x1xi64> to tensor<?x1xi64>
      %s = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(true)
          ins(%v, %j : tensor<?xi32>, tensor<?x1xi64>) outs(%t : tensor<5xi32>) {
      ^bb0(%new: i32, %old: i32):
        tm_tensor.yield %new : i32
      } -> tensor<5xi32>
      return %s : tensor<5xi32>
    }"""
    t, i, u = np.arange(5, dtype=np.int32), np.array([[4], [0], [2]]), np.array([7, 8, 9], np.int32)
    t, (found,) = t.copy(), outputs(text, t, i, u)
    t[i[:, 0]] = u
    np.testing.assert_array_equal(found, t)


def sort_text(shape: Sequence[int], axis: int, element: str, comparison: str) -> str:
    """Return the text of a function that sorts values along an axis, and moves their indices along.

    ``comparison`` is a comparison of the arith dialect with its predicate, such as "cmpi sle".
    """
    values, numbers = kind(shape, element), kind(shape, "i64")
    return f"""
    func.func @f(%x: {values}, %n: {numbers}) -> ({values}, {numbers}) {{
      %r:2 = tm_tensor.sort dimension({axis}) outs(%x, %n : {values}, {numbers}) {{
      ^bb0(%a: {element}, %b: {element}, %m: i64, %k: i64):
        %c = arith.{comparison}, %a, %b : {element}
        tm_tensor.yield %c : i1
      }} -> {values}, {numbers}
      return %r#0, %r#1 : {values}, {numbers}
    }}"""


@pytest.mark.parametrize(
    ("shape", "axis", "element", "comparison"),
    [
        ((40,), 0, "i32", "cmpi sle"),
        ((3, 11), 1, "i32", "cmpi slt"),
        ((7, 3), 0, "i32", "cmpi sge"),
        ((2, 5, 3), 1, "f32", "cmpf ole"),
        ((4, 9), 1, "f32", "cmpf oge"),
        ((4, 9), 1, "f32", "cmpf olt"),
        ((4, 9), 1, "f32", "cmpf ult"),
        ((4, 9), 1, "f32", "cmpf uge"),
    ],
)
def test_sort(shape: tuple[int, ...], axis: int, element: str, comparison: str) -> None:
    random = np.random.default_rng(0)
    x = random.integers(-3, 3, shape).astype(ELEMENTS[element])  # with equal elements
    if element == "f32":
        x[x == 1] = np.nan
    n = np.broadcast_to(
        np.expand_dims(np.arange(shape[axis]), [*range(1, len(shape) - axis)]), shape
    )
    keys = np.where(np.isnan(x), np.inf, x) * (-1 if comparison[-2:] in ("gt", "ge") else 1)
    order = np.argsort(keys, axis, kind="stable")
    found, numbers = outputs(sort_text(shape, axis, element, comparison), x, n.copy())
    np.testing.assert_array_equal(found, np.take_along_axis(x, order, axis))
    np.testing.assert_array_equal(numbers, order)


def topk_text(
    shape: Sequence[int], axis: int, count: int, comparison: str, start: str, *, numbered: bool
) -> str:
    """Return the text of a function that selects the first ``count`` values along an axis.

    Args:
        shape: shape of the values.
        axis: the axis.
        count: number of selected values.
        comparison: predicate of the comparison of floats that decides which value comes first.
        start: literal of the number with which the result is filled before.
        numbered: whether the values' indices are an operand; else they are the values' positions.
    """
    short = [*shape[:axis], count, *shape[axis + 1 :]]
    values, numbers = kind(shape, "f32"), kind(shape, "i32")
    best, places = kind(short, "f32"), kind(short, "i32")
    more, types = (", %n", f", {numbers}") if numbered else ("", "")
    return f"""
    func.func @f(%x: {values}, %n: {numbers}) -> ({best}, {places}) {{
      %limit = arith.constant {start} : f32
      %none = arith.constant -1 : i32
      %e = tensor.empty() : {best}
      %d = tensor.empty() : {places}
      %b = linalg.fill ins(%limit : f32) outs(%e : {best}) -> {best}
      %p = linalg.fill ins(%none : i32) outs(%d : {places}) -> {places}
      %r:2 = tm_tensor.topk dimension({axis}) ins(%x{more} : {values}{types})
          outs(%b, %p : {best}, {places}) {{
      ^bb0(%new: f32, %kept: f32):
        %c = arith.cmpf {comparison}, %new, %kept : f32
        tm_tensor.yield %c : i1
      }} -> {best}, {places}
      return %r#0, %r#1 : {best}, {places}
    }}"""


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "count", "comparison", "start"),
    [
        ((20,), 0, 3, "ogt", "0xFF800000"),
        ((3, 8), 1, 8, "olt", "0x7F800000"),
        ((6, 2, 3), 0, 2, "olt", "3.40282347E+38"),
        ((4, 5), 0, 1, "ogt", "0xFF800000"),
    ],
)
def test_topk(
    shape: tuple[int, ...], axis: int, count: int, comparison: str, start: str, numbered: bool
) -> None:
    random = np.random.default_rng(0)
    x = random.integers(-5, 5, shape).astype(np.float32)
    x[x == 3] = np.nan
    n = random.integers(0, 99, shape).astype(np.int32)
    keys = np.where(np.isnan(x), np.inf, x) * (-1 if comparison == "ogt" else 1)
    # Ties go to the smaller index: the given one, or the position.
    order = np.argsort(n, axis, kind="stable") if numbered else np.argsort(x * 0, axis, "stable")
    stable = np.argsort(np.take_along_axis(keys, order, axis), axis, kind="stable")
    order = np.take(np.take_along_axis(order, stable, axis), range(count), axis)
    text = topk_text(shape, axis, count, comparison, start, numbered=numbered)
    found, places = outputs(text, x, n)
    np.testing.assert_array_equal(found, np.take_along_axis(x, order, axis))
    np.testing.assert_array_equal(places, np.take_along_axis(n, order, axis) if numbered else order)


def attention_text(
    batch: Sequence[int], element: str, mask: str | None = None, attributes: str = ""
) -> str:
    """Return the text of a function with an attention of 3 queries and 5 keys.

    Queries and keys have 4 elements, values have 2.

    Args:
        batch: sizes of the dimensions before those of queries and keys.
        element: element type of all operands but the mask.
        mask: element type of the mask; None for an attention without a mask.
        attributes: text of the operation's attributes.
    """
    q, k, v, r = (kind([*batch, *s], element) for s in ((3, 4), (5, 4), (5, 2), (3, 2)))
    m = kind([*batch, 3, 5], mask or "i1")
    more, types = ("", "") if mask is None else (", %m", f", {m}")
    return f"""
    func.func @f(%q: {q}, %k: {k}, %v: {v}, %m: {m}) -> {r} {{
      %e = tensor.empty() : {r}
      %r = tm_tensor.attention {attributes} ins(%q, %k, %v{more} : {q}, {k}, {v}{types})
          outs(%e : {r}) -> {r}
      return %r : {r}
    }}"""


@pytest.mark.parametrize(
    ("batch", "mask", "attributes", "scale"),
    [
        ((2,), None, "", 0.5),
        ((2, 3), "f32", "", 0.5),
        ((2,), "i1", "{scale = 0.25}", 0.25),
    ],
)
def test_attention(batch: tuple[int, ...], mask: str | None, attributes: str, scale: float) -> None:
    random = np.random.default_rng(0)
    q, k, v = (
        random.standard_normal((*batch, *shape), np.float32) for shape in ((3, 4), (5, 4), (5, 2))
    )
    m = random.integers(0, 2, (*batch, 3, 5)).astype(bool)
    m[0, ..., 1, :] = False  # a row without any score
    scores = np.where(m, 0, -np.inf) if mask else np.zeros(m.shape)
    given = scores.astype(np.float32) if mask == "f32" else m
    weights = np.exp(q @ np.swapaxes(k, -1, -2) * scale + scores)
    total = weights.sum(-1, keepdims=True)
    wanted = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0) @ v
    (found,) = outputs(attention_text(batch, "f32", mask, attributes), q, k, v, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


REFUSED = {
    "another function": (
        scan_text((4,), 0, True, "f32", "subf"),
        "'tm_tensor.scan'; give static shapes, and combine elements by one associative operation",
    ),
    "attention of integers": (
        attention_text((2,), "i32"),
        "'tm_tensor.attention'; give static shapes, equal ranks and floats of one type",
    ),
    "another type of mask": (
        attention_text((2,), "f32", "f64"),
        "'tm_tensor.attention'; give static shapes, equal ranks and floats of one type",
    ),
    "long lines": (
        sort_text((4097,), 0, "f32", "cmpf ole"),
        "'tm_tensor.sort'; give static shapes, at most 4096 elements along the dimension, and",
    ),
    "a comparison that does not order NaN": (
        sort_text((9,), 0, "f32", "cmpf one"),
        "'tm_tensor.sort'; .* and compare floats by one arith.cmpf",
    ),
    "the limit that precedes all elements": (
        topk_text((9,), 0, 3, "ogt", "0x7F800000", numbered=False),
        "'tm_tensor.topk'; .* start at a limit of their type",
    ),
    "other initial values": (
        topk_text((9,), 0, 3, "ogt", "0.0", numbered=False),
        "'tm_tensor.topk'; give static shapes, at most 4096 .* start at a limit of their type",
    ),
    "more results than elements": (
        topk_text((2,), 0, 3, "ogt", "0xFF800000", numbered=False),
        "'tm_tensor.topk'; .* no more results than elements",
    ),
    "a dimension without index": (
        scatter_text((4, 3), (2,), (0,), "f32", "tm_tensor.yield %new"),
        "'tm_tensor.scatter' op index depth and update value does not cover rank",
    ),
    "another dimension with an index": (
        scatter_text((4, 3), (2, 3), (1,), "f32", "tm_tensor.yield %new"),
        "'tm_tensor.scatter'; give static shapes, and an index or a window for each dimension",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(RammerError, match=message):
        rammer_mlir.compile(text, cache=False)

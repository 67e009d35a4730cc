"""Tests that strided layouts address the same elements as NumPy's strided arrays."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from rammer_mlir.passes.ir.layout import Layout

sizes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def elements(layout: Layout, length: int = 4096) -> np.ndarray:
    """Return the flat index of every element of a layout, as an array of its shape."""
    flat = np.arange(length)
    strides = tuple(stride * flat.itemsize for stride in layout.strides)
    return as_strided(flat[layout.offset :], layout.sizes, strides)


@given(sizes)
def test_row_major_is_dense(shape: list[int]) -> None:
    layout = Layout.row_major(shape)
    assert layout.is_dense
    assert elements(layout).reshape(-1).tolist() == list(range(prod(shape)))


@given(sizes, st.data())
def test_slice_addresses_the_same_elements(shape: list[int], data: st.DataObject) -> None:
    starts = [data.draw(st.integers(0, size - 1)) for size in shape]
    steps = [data.draw(st.integers(1, 2)) for _ in shape]
    counts = [
        data.draw(st.integers(1, (size - start + step - 1) // step))
        for size, start, step in zip(shape, starts, steps, strict=True)
    ]
    sliced = Layout.row_major(shape).slice(starts, counts, steps)
    index = tuple(
        slice(start, start + count * step, step)
        for start, count, step in zip(starts, counts, steps, strict=True)
    )
    whole = elements(Layout.row_major(shape))
    assert np.array_equal(elements(sliced), whole[index])


@given(sizes, st.data())
def test_collapse_keeps_the_order_or_refuses(shape: list[int], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(shape) - 1)), max_size=3)))
    bounds = [0, *[cut for cut in cuts if cut < len(shape)], len(shape)]
    groups = [list(range(a, b)) for a, b in pairwise(bounds)]
    padded = [size + data.draw(st.integers(0, 1)) for size in shape]
    view = Layout.row_major(padded).slice([0] * len(shape), shape, [1] * len(shape))
    collapsed = view.collapse(groups)
    if collapsed is None:
        assert not view.is_dense
        return
    assert elements(collapsed).reshape(-1).tolist() == elements(view).reshape(-1).tolist()
    assert collapsed.sizes == tuple(prod(shape[d] for d in group) for group in groups)
    expanded = collapsed.expand(groups, shape)
    assert np.array_equal(elements(expanded), elements(view))

"""Tests that regions of oneDNN include operators after a convolution, and divide a batch.

The parts of the batch are computed by separate rTasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from rammer_mlir.codegens import Region, RegionCode
from rammer_mlir.codegens.onednn.codegen import OneDnn
from tests.codegens.checks import count_converted_bytes
from tests.codegens.test_onednn import check, compiled, feeds_of, model_of, taken

__all__ = ["taken"]

IMAGES = "float[2,5,9,11] x"

BEHIND = {
    "concatenation": "d = Relu(c)  y = Concat<axis=1>(c, d)",
    "concatenation of rows": "y = Concat<axis=2>(c, x)",
    "mean of images": "y = GlobalAveragePool(c)",
    "maximum of images": "y = GlobalMaxPool(c)",
    "flat mean": "d = GlobalAveragePool(c)  e = Flatten(d)  y = MatMul(e, m)",
    "averages inside": "y = AveragePool<kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]>(c)",
    "sum of rows": "y = ReduceSum<keepdims=0>(c, last)",
    "squares of channels": "y = ReduceSumSquare(c, one)",
    "least element": "y = ReduceMin<keepdims=0>(c, last)",
    "scale and shift": "d = Mul(c, s)  e = Add(d, t)  y = Relu(e)",
    "normalization": "d = BatchNormalization(c, b, b, b, v)  y = Relu(d)",
    "channels of images": "d = Sigmoid(g)  y = Mul(c, d)",
    "repeated": "y = Resize<mode=\"nearest\">(c, , twice)",
    "repeated unevenly": "y = Resize<mode=\"nearest\">(c, , uneven)",
    "numbers": "d = Mul(c, two)  e = Sub(two, d)  f = Div(e, two)  y = Max(f, two)",
    "equal numbers": "d = Mul(c, halves)  e = Add(halves, d)  y = Div(e, halves)",
    "power": "d = Abs(c)  y = Pow(d, two)",
    "negative": "d = Neg(c)  y = Tanh(d)",
    "quotient": "d = Exp(x)  y = Div(c, d)",
    "difference": "y = Sub(x, c)",
    "softmax of images": "y = Softmax<axis=0>(c)",
    "softmax of rows": "y = Softmax<axis=2>(c)",
    "turned": "d = Transpose<perm=[0,2,3,1]>(c)  y = Relu(d)",
    "turned and flat": "d = Transpose<perm=[0,2,3,1]>(c)  e = Reshape(d, flat)  y = Tanh(e)",
    "shuffled channels": """d = Conv<group=5, pads=[1,1,1,1]>(c, k, l)  e = Relu(d)
        f = Reshape(e, split)  g2 = Transpose<perm=[0,2,1,3,4]>(f)  h = Reshape(g2, joined)
        y = Conv<group=2>(h, n)""",
    "reader of a reshape": """d = Reshape(c, flat)  e = Relu(d)  f = Tanh(c)  h = Reshape(f, flat)
        y = Add(e, h)""",
}  # fmt: skip
"""The operators after a convolution."""

CONSTANTS = {
    "last": np.array([3]), "one": np.array([1]), "flat": np.array([2, -1]),
    "split": np.array([2, 5, 2, 9, 11]), "joined": np.array([2, 10, 9, 11]),
    "two": np.array(2.0, np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32), "uneven": np.array([1, 1, 3, 1], np.float32),
    "halves": np.full((2, 5, 9, 11), 0.5, np.float32),
    "v": np.linspace(0.5, 2, 5).astype(np.float32),
}  # fmt: skip


def with_constants(model: Any) -> Any:
    for name, values in CONSTANTS.items():
        if any(name in node.input for node in model.graph.node):
            model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


@pytest.mark.parametrize("name", BEHIND)
def test_operators_behind_a_convolution(name: str, taken: list[list[str]]) -> None:
    body = f"c = Conv<pads=[1,1,1,1]>(x, w, b)  {BEHIND[name]}"
    inputs = IMAGES + ", float[2,5,1,1] g" * ("(g)" in body)
    model = model_of(
        body, inputs, w=(5, 5, 3, 3), b=(5,), m=(5, 7), s=(1, 5, 1, 1), t=(5, 1, 1),
        k=(10, 1, 3, 3), l=(10,), n=(6, 5, 3, 3),
    )  # fmt: skip
    exe = compiled(with_constants(model))
    check(exe, model, 1e-4)
    assert taken and len(exe.image.program.operators) == 1, "one region is all of the model"


@pytest.mark.parametrize("function", ["Div(halves, d)", "Sub(halves, d)"])
def test_the_host_subtracts_and_divides_from_equal_numbers(
    function: str, taken: list[list[str]]
) -> None:
    body = f"c = Conv<pads=[1,1,1,1]>(x, w)  d = Exp(c)  y = {function}"
    model = with_constants(model_of(body, IMAGES, w=(5, 5, 3, 3)))
    check(compiled(model), model, 1e-4)
    assert [names.count("onednn.convolution") for names in taken] == [1]


@pytest.mark.parametrize("places", [1, 2, 3])
def test_the_host_joins_branches(places: int, taken: list[list[str]]) -> None:
    """A region includes a concatenation of two branches; the host concatenates three branches."""
    branches = "".join(f"c{n} = Conv(x, w)  " for n in range(places))
    parts = ", ".join(f"c{n}" for n in range(places))
    model = model_of(f"{branches} y = Concat<axis=1>({parts})", IMAGES, w=(5, 5, 3, 3))
    check(compiled(model), model)
    assert any("concat" in names for names in taken) == (places == 2)


BATCHES = {
    "images": ("c = Conv(x, w, b)  d = Relu(c)  y = MaxPool<kernel_shape=[2,2]>(d)",
               "float[6,16,40,40] x", 6),
    "tensors of two": ("c = Conv<pads=[1,1,1,1]>(x, w, b)  y = Add(c, r)",
                       "float[4,16,40,40] x, float[4,16,40,40] r", 4),
    "rows": ("c = MatMul(x, m)  d = Add(c, b)  y = Softmax(d)", "float[300,512] x", 2),
    "rows of one sequence": ("c = MatMul(x, m)  d = MatMul(c, l)  y = Reshape(d, one)",
                             "float[256,512] x", 2),
    "rows of few sequences": ("c = MatMul(x, m)  d = MatMul(c, l)  y = Reshape(d, two)",
                              "float[512,512] x", 4),
    "turned": ("c = Conv(x, w)  y = Transpose<perm=[0,2,3,1]>(c)", "float[4,16,40,40] x", 4),
    "flat": ("c = Conv<strides=[9,9]>(x, w)  d = Flatten(c)  y = Relu(d)",
             "float[4,16,200,200] x", 4),
    "stack": ("y = MatMul(x, r)", "float[4,64,128] x, float[4,128,64] r", 2),
    "one image": ("y = Conv(x, w)", "float[1,16,40,40] x", 1),
    "little work": ("y = Conv(x, w)", "float[4,16,5,5] x", 1),
    "joined images": ("c = Conv(x, w)  y = Concat<axis=0>(c, c)", "float[4,16,40,40] x", 1),
    "softmax of all": ("c = Conv(x, w)  y = Softmax<axis=0>(c)", "float[4,16,40,40] x", 1),
    "images that become channels": ("c = Conv(x, w)  y = Transpose<perm=[1,0,2,3]>(c)",
                                    "float[16,16,30,30] x", 1),
    "mean of images": ("c = Conv(x, w)  y = ReduceMean<keepdims=0>(c, first)",
                       "float[4,16,40,40] x", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_rtasks_divide_the_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[RegionCode] = []
    generate: Callable[[OneDnn, Region], RegionCode | None] = OneDnn.generate

    def spied(self: OneDnn, region: Region) -> RegionCode | None:
        code = generate(self, region)
        codes.extend([code] if code is not None else [])
        return code

    monkeypatch.setattr(OneDnn, "generate", spied)
    body, inputs, parts = BATCHES[name]
    model = model_of(body, inputs, w=(16, 16, 3, 3), b=(16,), m=(512, 16), l=(16, 128))
    numbers = {"first": [0], "one": [1, -1, 128], "two": [2, 1, -1, 128]}
    for key, values in numbers.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(values), key))
    exe = compiled(model, num_veus=2, offload_check=True)
    check(exe, model, 1e-4)
    assert [code.num_rtasks for code in codes] == [parts]
    feeds = feeds_of(model)
    first = exe.run(feeds)["y"]
    assert all(np.array_equal(exe.run(feeds)["y"], first) for _ in range(200))


CONVERTED = {
    "layers": ("c = Conv<pads=[1,1,1,1]>(x, w)  y = Conv<pads=[1,1,1,1]>(c, w)", 2),
    "maxima": ("c = Conv(x, w)  y = MaxPool<kernel_shape=[2,2]>(c)", 2),
    "single points": ("y = Conv(x, p)", 0),
}
"""Models, and how many of their tensors are converted at most."""


@pytest.mark.parametrize("name", CONVERTED)
def test_bytes_converted_at_the_boundary(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A region converts the layouts of its inputs and outputs only, if any.

    Weights and values inside of the region are not converted in a run.
    """
    counts = count_converted_bytes(monkeypatch)
    body, most = CONVERTED[name]
    compiled(model_of(body, "float[1,16,24,24] x", w=(16, 16, 3, 3), p=(16, 16, 1, 1)))
    tensor = 4 * 16 * 24 * 24
    (count,) = counts
    assert count <= most * tensor and (count > 0) == (most > 0)

"""Tests that convolutions by Winograd's minimal filtering give right results.

The networks are random; the algebra is tested by itself, too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.winograd.choice import Form, Sizes, cycles, direct_cycles
from rammer_mlir.passes.winograd.filtering import minimal_filtering

Doubles = NDArray[np.float64]


@pytest.mark.parametrize(("outputs", "taps"), [(2, 3), (4, 3), (3, 2), (2, 5), (5, 2)])
def test_filtering_is_a_correlation(outputs: int, taps: int) -> None:
    numbers = np.random.default_rng(outputs * 10 + taps)
    filtering = minimal_filtering(outputs, taps)
    values = numbers.integers(-50, 50, filtering.size)
    weights = numbers.integers(-50, 50, taps)
    products = (np.array(filtering.kernel) @ weights) * (np.array(filtering.data) @ values)
    found = np.array(filtering.inverse) @ products
    np.testing.assert_allclose(found, np.correlate(values, weights), atol=1e-9)


def _convolved(image: Doubles, weight: Doubles, bias: Doubles, pads: Sequence[int]) -> Doubles:
    top, left, bottom, right = pads
    padded = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    groups = image.shape[1] // weight.shape[1]
    parts = zip(np.split(windows, groups, axis=1), np.split(weight, groups), strict=True)
    sums = [np.einsum("nchwij,kcij->nkhw", *part, optimize=True) for part in parts]
    return np.concatenate(sums, axis=1) + bias[:, None, None]


class _Case:
    """A random network with 3x3 convolutions, which ``seed`` determines, and its expected outputs.

    A 1x1 and a 3x3 convolution follow each other. A second 3x3 convolution may be added as a
    residual, and a ReLU may follow. One output is a 1x1 convolution of the result; with an even
    seed, a second output is a transposed copy of the result.
    """

    def __init__(self, seed: int) -> None:
        rng, numbers = random.Random(seed), np.random.default_rng(seed)
        self.groups = rng.choice((1, 1, 2, 3))
        self.channels = self.groups * rng.choice((16, 32, 48))
        self.filters = self.groups * rng.choice((16, 32, 64))
        self.size = rng.choice((6, 7, 8, 12, 13)), rng.choice((5, 8, 9, 12))
        self.pads = rng.choice(([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 1], [0, 2, 1, 0]))
        self.relu, self.residual = rng.random() < 0.7, rng.random() < 0.5
        self.batch = rng.choice((1, 2))
        self.outputs = (["y", "t"], ["y"])[seed % 2]

        def draw(*shape: int) -> NDArray[np.float32]:
            return numbers.standard_normal(shape).astype(np.float32)

        self.image = draw(self.batch, 8, *self.size)
        self.weights = {
            "w0": draw(self.channels, 8, 1, 1), "b0": draw(self.channels),
            "w": draw(self.filters, self.channels // self.groups, 3, 3), "b": draw(self.filters),
            "w1": draw(self.filters, self.channels // self.groups, 3, 3), "b1": draw(self.filters),
            "w2": draw(16, self.filters, 1, 1), "b2": draw(16),
        }  # fmt: skip

    def model(self) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Conv", ["x", "w0", "b0"], ["c0"]),
            helper.make_node("Conv", ["c0", "w", "b"], ["c"], pads=self.pads, group=self.groups),
        ]
        last = "c"
        if self.residual:
            nodes.append(
                helper.make_node(
                    "Conv", ["c0", "w1", "b1"], ["r"], pads=self.pads, group=self.groups
                )
            )
            nodes.append(helper.make_node("Add", ["c", "r"], ["sum"]))
            last = "sum"
        if self.relu:
            nodes.append(helper.make_node("Relu", [last], ["relu"]))
            last = "relu"
        readers = {
            "y": helper.make_node("Conv", [last, "w2", "b2"], ["y"]),
            "t": helper.make_node("Transpose", [last], ["t"], perm=[0, 2, 3, 1]),
        }
        nodes += [readers[name] for name in self.outputs]
        image = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.image.shape)
        results = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs
        ]
        initial = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        graph = helper.make_graph(nodes, "g", [image], results, initial)
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)

    def expected(self) -> dict[str, Doubles]:
        weights = {name: value.astype(np.float64) for name, value in self.weights.items()}
        none = [0, 0, 0, 0]
        before = _convolved(self.image.astype(np.float64), weights["w0"], weights["b0"], none)
        found = _convolved(before, weights["w"], weights["b"], self.pads)
        if self.residual:
            found = found + _convolved(before, weights["w1"], weights["b1"], self.pads)
        if self.relu:
            found = np.maximum(found, 0)
        results = {
            "y": _convolved(found, weights["w2"], weights["b2"], none),
            "t": found.transpose(0, 2, 3, 1),
        }
        return {name: results[name] for name in self.outputs}


FORMS = [(tile, form) for tile in (2, 4) for form in ("strips", "operators")]


def _check(seed: int, tile: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a random network compiled with Winograd gives right results.

    ``tile`` and ``form`` are options of `rtask-winograd`. The pass rewrites all 3x3 convolutions
    that it can rewrite, even if that is predicted to be slower.
    """
    passes = (f"rtask-winograd{{tile={tile} form={form}}}",)

    def forced(options: CompileOptions) -> tuple[str, ...]:
        assert options.given["winograd"]
        return passes

    monkeypatch.setattr("rammer_mlir.compiler.pipeline._winograd", forced)
    case = _Case(seed)
    options = check_options("cpu", policy="wavefront", num_veus=2)
    text = Compilation.of_model(case.model(), options).emit("operators")
    kind = "winograd" if form == "strips" else "winograd_product"
    expected = case.expected()
    height, width = (
        size + low + high - 2
        for size, low, high in zip(case.size, case.pads[:2], case.pads[2:], strict=True)
    )
    whole = not (height % tile or width % tile)
    assert f"@{kind}_0".encode() in text
    assert (b"@conv" in text) is (case.residual and not whole)
    found = Compilation.of_model(case.model(), options).executable().run({"x": case.image})
    assert list(found) == case.outputs
    for name, right in expected.items():
        errors = np.abs(found[name].astype(np.float64) - right)
        assert np.all(errors <= 1e-3 * np.abs(right) + 1e-4 * np.abs(right).max())


@pytest.mark.parametrize(("tile", "form"), FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_a_convolution_keeps_its_results(
    seed: int, tile: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check(seed, tile, form, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("tile", "form"), FORMS)
@pytest.mark.parametrize("seed", range(3, 20))
def test_more_convolutions_keep_their_results(
    seed: int, tile: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check(seed, tile, form, monkeypatch)


def _best(sizes: Sizes) -> Form | None:
    found = [Form(minimal_filtering(m, 3), strips) for m in (2, 4) for strips in (True, False)]
    best = min(found, key=lambda form: cycles(sizes, form))
    return best if cycles(sizes, best) < direct_cycles(sizes) else None


def test_small_images_of_many_channels_stay_as_they_are() -> None:
    assert _best(Sizes(1, 512, 512, 7, 7)) is None


def test_large_images_of_few_channels_are_cut_into_strips() -> None:
    form = _best(Sizes(1, 64, 64, 56, 56))
    assert form is not None
    assert form.strips
    assert form.filtering.outputs == 4


def test_transformed_weights_beyond_a_cache_are_read_once() -> None:
    form = _best(Sizes(1, 512, 512, 28, 28))
    assert form is not None
    assert not form.strips

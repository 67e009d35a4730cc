"""Regions of oneDNN exchange images in blocks of channels, with each other and with the host."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser, shape_inference

import rammer_mlir
from rammer_mlir.codegens import Layouts, Limits, Region
from rammer_mlir.codegens.onednn.codegen import OneDnn
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.lowering.llvm.machine import host_machine
from tests.codegens.checks import count_converted_bytes

BODY = """
a = Conv<pads=[1,1,1,1]>(x, w)  b = Relu(a)  c = Erf(b)  d = Conv<pads=[1,1,1,1]>(c, v)  e = Relu(d)
f = Erf(e)  g = Conv<pads=[1,1,1,1], strides=[2,2]>(f, v)  y = Relu(g)
"""
"""Three convolutions, between which the host computes functions that oneDNN does not take."""


ADJACENT = BODY.replace("Erf", "Identity")
"""The same convolutions with nothing between them."""


def model(batch: int, channels: int = 32, body: str = BODY) -> onnx.ModelProto:
    found = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> '
        f"g (float[{batch},3,24,20] x) => (float[N,C,H,W] y) {{ {body} }}"
    )
    random = np.random.default_rng(channels)
    for name, shape in {"w": (channels, 3, 3, 3), "v": (channels, channels, 3, 3)}.items():
        values = random.standard_normal(shape).astype(np.float32) / 8
        found.graph.initializer.append(numpy_helper.from_array(values, name))
    return shape_inference.infer_shapes(found)


def operators(given: onnx.ModelProto) -> list[str]:
    """Return the lines that define rOperators in the IR of stage ``buffers``, with oneDNN."""
    options = check_options(offload="onednn", offload_choice="always")
    text = Compilation.of_model(given, options).emit("buffers").decode()
    return [line for line in text.splitlines() if "rtask.operator " in line]


@pytest.mark.parametrize("batch", [1, 4])
def test_nothing_is_converted_between_regions_and_the_host(batch: int) -> None:
    lines = operators(model(batch))
    assert len(lines) == 5, "three regions, and two functions of the host"
    functions = [line for line in lines if '"Erf:' in line]
    assert len(functions) == 2
    # With vectors of 8, the library asks for blocks of 8 channels, which the host does not have.
    in_blocks = 2 if host_machine().has_feature("avx512f") else 0
    assert all(line.count("x16xf32>") == in_blocks for line in functions)


def one_operation(_: OneDnn) -> Limits:
    return Limits(operations=1)


def no_blocks(_: OneDnn, region: Region) -> Layouts:
    return Layouts()


@pytest.mark.skipif(
    not host_machine().has_feature("avx512f"), reason="the library asks for blocks of 8 channels"
)
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(("body", "between"), [(BODY, 2), (ADJACENT, 0)], ids=["erf", "nothing"])
def test_no_bytes_are_converted_between_regions(
    body: str, between: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No layout is converted between regions, nor by the host.

    Only the model's own input and output, which have no blocks, may be converted.
    """
    counts = count_converted_bytes(monkeypatch)
    monkeypatch.setattr(OneDnn, "limits", one_operation)
    given, tensor = model(batch, body=body), 4 * batch * 24 * 20
    assert len(operators(given)) == 3 + between, "the host converts nothing, either"
    first, middle, last = counts
    assert first <= 3 * tensor and middle == 0 and last <= 32 * tensor // 4
    counts.clear()
    monkeypatch.setattr(OneDnn, "layouts", no_blocks)
    operators(given)
    first, middle, last = counts
    assert first >= 32 * tensor and middle == 2 * 32 * tensor and last >= 32 * tensor


def test_channels_that_are_no_blocks_stay_as_they_are() -> None:
    lines = operators(model(1, 24))
    assert len(lines) == 5 and not any("x16xf32>" in line for line in lines)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("veus", [1, 3])
def test_numbers(batch: int, veus: int) -> None:
    given = model(batch)
    feeds = {"x": np.random.default_rng(0).standard_normal((batch, 3, 24, 20)).astype(np.float32)}
    (expected,) = ort.InferenceSession(given.SerializeToString()).run(None, feeds)
    with rammer_mlir.compile(
        given, offload="onednn", offload_choice="always", num_veus=veus, cache=False,
        offload_check=veus == 1,
    ) as exe:  # fmt: skip
        assert len(exe.image.modules) == 3
        first = exe.run(feeds)["y"]
        np.testing.assert_allclose(first, np.asarray(expected), rtol=1e-4, atol=1e-4)
        assert all(np.array_equal(exe.run(feeds)["y"], first) for _ in range(200))

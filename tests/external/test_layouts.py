"""Tests that regions and the host's convolutions exchange images in blocks of channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    Layouts,
    Limits,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    register_codegen,
)
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import RammerError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable

SOURCE = """
#include <stdint.h>
#include <math.h>
static int64_t plain(int64_t c, int64_t p) {{ return c * {points} + p; }}
static int64_t blocks(int64_t c, int64_t p) {{ return (c / 16 * {points} + p) * 16 + c % 16; }}
int32_t {name}(int64_t rtask, const float *x, float *y) {{
  for (int64_t c = 0; c < {channels}; c++)
    for (int64_t p = 0; p < {points}; p++) {{
      float v = x[{read}(c, p)];
      y[{written}(c, p)] = v / (1 + (v < 0 ? -v : v));
    }}
  return 0;
}}
"""


@dataclass
class Softsigns:
    """A code generator of softsign on images.

    Attributes:
        takes_blocks: whether images are read and written in blocks of channels where possible.
        layout: arguments of ``Layouts`` for all regions; None if ``takes_blocks`` decides.
        seen: names of the operations of each region for which code was generated.
    """

    takes_blocks: bool = True
    layout: Mapping[str, Mapping[int, int]] | None = None
    seen: list[list[str]] = field(default_factory=list[list[str]])
    name: ClassVar[str] = "softsigns"
    min_macs: ClassVar[int] = 0

    def patterns(self) -> Sequence[CompositePattern]:
        return []

    def supports(self, reading: Reading) -> bool:
        return reading.kind == "softsign" and reading.output.rank == 4

    def limits(self) -> Limits:
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True

    def layouts(self, region: Region) -> Layouts:
        if self.layout is not None:
            return Layouts(**self.layout)
        shape = ir.RankedTensorType(region.inputs[0]).shape
        return Layouts({0: 1}, {0: 1}) if self.takes_blocks and not shape[1] % 16 else Layouts()

    def generate(self, region: Region) -> RegionCode:
        names = [operation.name for operation in region.operations]
        self.seen.append(names)
        (image,) = (each for each in region.operations if each.readings)
        _, channels, *points = image.readings[0].output.shape
        read, written = (
            "blocks" if name in names else "plain" for name in ("linalg.unpack", "linalg.pack")
        )
        text = SOURCE.format(
            name=region.name, channels=channels, points=int(np.prod(points)), read=read,
            written=written,
        )  # fmt: skip
        return RegionCode(text, region.name)


@pytest.fixture
def softsigns() -> Iterator[Softsigns]:
    """Return the code generator ``Softsigns``, registered during the test."""
    codegen = Softsigns()
    register_codegen(codegen)
    yield codegen
    CODEGENS.unregister(codegen.name)


def model(body: str, channels: int = 32) -> onnx.ModelProto:
    """Return a model of the nodes ``body``, in ONNX's text syntax, from an image x to y.

    x has 3 channels. The filters w (3 x 3) and v (1 x 1) have ``channels`` output channels.
    """
    found = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[1,3,12,10] x) => (float[N,C,H,W] y) {'
        f"{body} }}"
    )
    random = np.random.default_rng(channels)
    for name, shape in {"w": (channels, 3, 3, 3), "v": (channels, channels, 1, 1)}.items():
        values = random.standard_normal(shape).astype(np.float32) / 4
        found.graph.initializer.append(numpy_helper.from_array(values, name))
    return onnx.shape_inference.infer_shapes(found)


BETWEEN = model(
    "a = Conv<pads=[1,1,1,1]>(x, w)  b = Softsign(a)  c = Softsign(b)  d = Conv(c, v)"
    "e = Add(d, b)  f = MaxPool<kernel_shape=[2,2], strides=[2,2]>(e)  g = Softsign(f)"
    "y = Conv(g, v)"
)
"""Regions after and before convolutions, after each other, and after a pool."""


def check(given: onnx.ModelProto, **options: Any) -> Executable:
    """Compile a model, and compare what it computes with ONNX Runtime."""
    options = {"offload": "softsigns", "offload_choice": "always", "cache": False, **options}
    exe = rammer_mlir.compile(given, **options)
    assert isinstance(exe, Executable)
    x = np.random.default_rng(1).standard_normal((1, 3, 12, 10)).astype(np.float32)
    (expected,) = ort.InferenceSession(given.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(exe.run({"x": x})["y"], np.asarray(expected), rtol=1e-4, atol=1e-4)
    return exe


def operators(given: onnx.ModelProto) -> list[str]:
    """Return the lines of the emitted stage `buffers` that declare rOperators."""
    options = check_options(offload="softsigns", offload_choice="always")
    text = Compilation.of_model(given, options).emit("buffers").decode()
    return [line for line in text.splitlines() if "rtask.operator " in line]


@pytest.mark.parametrize("veus", [1, 3])
@pytest.mark.parametrize("policy", ["wavefront", "list"])
def test_regions_read_and_write_blocks(veus: int, policy: str, softsigns: Softsigns) -> None:
    exe = check(BETWEEN, num_veus=veus, policy=policy)
    assert exe.image.modules
    assert set(map(tuple, softsigns.seen)) == {("linalg.unpack", "softsign", "linalg.pack")}


def test_nothing_is_converted_between_regions_and_convolutions(softsigns: Softsigns) -> None:
    in_blocks = operators(BETWEEN)
    assert len(in_blocks) == 8, "three convolutions, three regions, a pool, and a padding"
    regions = [line for line in in_blocks if "@softsigns" in line]
    assert len(regions) == 3 and all(line.count("x16xf32>") == 2 for line in regions)
    softsigns.takes_blocks = False
    regions = [line for line in operators(BETWEEN) if "@softsigns" in line]
    assert len(regions) == 3 and not any("x16xf32>" in line for line in regions)


def test_the_models_own_values_stay_plain(softsigns: Softsigns) -> None:
    check(model("a = Conv<pads=[1,1,1,1]>(x, w)  y = Softsign(a)"))
    assert softsigns.seen == [["linalg.unpack", "softsign"]]


def test_blocks_without_a_convolution_behind_are_copied(softsigns: Softsigns) -> None:
    """A region in blocks of channels is right where transposes separate it from convolutions.

    The host then copies the region's blocks.
    """
    hidden = model(
        "a = Conv<pads=[1,1,1,1]>(x, w)  t = Transpose<perm=[0,1,3,2]>(a)  b = Softsign(t)"
        "c = Transpose<perm=[0,1,3,2]>(b)  y = Conv(c, v)"
    )
    check(hidden)


def test_the_host_computes_a_region_in_blocks(softsigns: Softsigns) -> None:
    """Regions in blocks of channels are right if costs choose them, and with ``offload_check``."""
    check(BETWEEN, offload_choice="cost")
    check(BETWEEN, offload_check=True)
    assert softsigns.seen


def test_odd_channels_stay_plain(softsigns: Softsigns) -> None:
    check(model("a = Conv<pads=[1,1,1,1]>(x, w)  b = Softsign(a)  y = Conv(b, v)", 24))
    assert softsigns.seen == [["softsign"]]


@pytest.mark.parametrize(
    ("layout", "found"),
    [({"inputs": {0: 0}}, "found 0 of input 0"), ({"outputs": {1: 1}}, "found 1 of output 1"),
     ({"outputs": {0: 4}}, "found 4 of output 0")],
)  # fmt: skip
def test_impossible_layouts_are_one_line(
    layout: Mapping[str, Mapping[int, int]], found: str, softsigns: Softsigns
) -> None:
    softsigns.layout = layout
    with pytest.raises(RammerError, match=found) as error:
        check(BETWEEN)
    assert "\n" not in str(error.value) and "multiple of 16" in str(error.value)

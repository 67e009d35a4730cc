"""Tests that whole models with quantized regions can be compiled, saved, loaded and run.

Engines give equal results, and wrong options are refused.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.compiler.caching.keys import compile_key
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import InputError, OptionError, RammerError
from rammer_mlir.runtime.executable import Executable
from tests.quantization.models import (
    ATTENTION,
    LENET,
    RESNET,
    SMALL,
    decibels,
    expected,
    feeds_of,
    model_of,
    quantized,
    samples_of,
)

MODELS = {"lenet": LENET, "resnet": RESNET, "attention": ATTENTION}
LAYERS = {"lenet": 4, "resnet": 5, "attention": 5, "small": 3}


@pytest.mark.parametrize("name", MODELS)
def test_the_whole_way(name: str, tmp_path: Path) -> None:
    model = model_of(MODELS[name])
    samples = samples_of(model)
    with quantized(model, samples, quantize_bound=20) as exe:
        assert [each["bits"] for each in exe.stats["quantize"]] == [8] * LAYERS[name]
        assert f"{LAYERS[name]} of {LAYERS[name]} regions" in exe.summary
        exe.save(tmp_path / "model.rammer")
        verify(tmp_path / "model.rammer")
        with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
            for number in range(3):
                feeds = feeds_of(samples_of(model, seed=7), number)
                found = exe.run(feeds)["y"]
                assert decibels(expected(model, feeds)["y"], found) > 18
                np.testing.assert_array_equal(loaded.run(feeds)["y"], found)


def test_every_quantized_region_keeps_the_bound() -> None:
    """Exactly the regions whose signal-to-noise ratio reaches the bound are quantized.

    The measured ratio of a region is the same for each bound.
    """
    model = model_of(LENET)
    samples = samples_of(model)

    def regions(bound: float) -> Any:
        with quantized(model, samples, quantize_bound=bound) as exe:
            return exe.stats["quantize"]

    measured = [each["decibels"] for each in regions(-100)]
    _, second, third, largest = sorted(measured)
    for bound, kept in (((second + third) / 2, 2), ((third + largest) / 2, 1)):
        found = regions(bound)
        assert [each["decibels"] for each in found] == pytest.approx(measured)
        assert sum(each["bits"] == 8 for each in found) == kept
        for region in found:
            if region["bits"] == 8:
                assert region["decibels"] >= bound and not region["reason"]
            else:
                assert region["bits"] == 32 and region["decibels"] < bound
                assert region["reason"] == f"expected at least {bound:g} dB"


@pytest.mark.parametrize("options", [{}, {"quantize_dynamic": True}, {"bits": 16}])
def test_engines(options: dict[str, Any]) -> None:
    """Engines give the same results for a quantized region, up to rounding.

    Sums of integers are exact; only the operations around the sums are rounded differently.
    """
    model = model_of(SMALL)
    samples = samples_of(model)
    found: dict[str, Any] = {}
    for engine in ("numpy", "onnxruntime", "openvino"):
        given: dict[str, Any] = {"offload": engine, "quantize_bound": 10, **options}
        with quantized(model, samples, offload_choice="always", **given) as exe:
            assert exe.image.modules
            (region,) = exe.stats["quantize"]
            if (engine, options.get("bits")) == ("openvino", 16):
                assert region["reason"] == "'openvino' takes no cast_f16 of f32"
                continue
            assert region["bits"] == options.get("bits", 8)
            found[engine] = exe.run(feeds_of(samples))["y"]
    for values in found.values():
        np.testing.assert_allclose(values, found["numpy"], rtol=0.02, atol=0.02)


def test_a_code_generator_without_integers() -> None:
    """Regions that a code generator cannot quantize are still offloaded to it, in f32."""
    model = model_of(SMALL)
    samples = samples_of(model)
    with quantized(model, samples, offload="onednn", offload_choice="always") as exe:
        assert exe.image.modules
        reasons = [each["reason"] for each in exe.stats["quantize"]]
        assert reasons and all("'onednn' takes no" in reason for reason in reasons)
        exact = expected(model, feeds_of(samples))["y"]
        np.testing.assert_allclose(exe.run(feeds_of(samples))["y"], exact, rtol=1e-4, atol=1e-4)


def test_the_host_computes_quantized_regions_without_code() -> None:
    """The host computes quantized regions for which a code generator makes no code.

    IREE makes no code of several dispatches, but quantization and a product are two dispatches.
    """
    model = model_of(SMALL)
    samples = samples_of(model)
    given: dict[str, Any] = {"offload": "iree", "offload_choice": "always", "quantize_bound": 20}
    with quantized(model, samples, **given) as exe, quantized(model, samples) as host:
        bits = [r["bits"] for r in exe.stats["quantize"] if "no product" not in r["reason"]]
        assert bits == [8] * LAYERS["small"]
        found = exe.run(feeds_of(samples))["y"]
        np.testing.assert_allclose(found, host.run(feeds_of(samples))["y"], rtol=1e-4, atol=1e-4)


def test_the_choice_by_cost() -> None:
    """A region that the choice by cost does not offload is quantized on the host."""
    model = model_of(SMALL)
    samples = samples_of(model)
    feeds = feeds_of(samples)
    with quantized(model, samples, offload="numpy,onnxruntime", quantize_bound=10) as exe:
        assert {each["bits"] for each in exe.stats["quantize"]} == {8}
        assert "offload" in exe.stats
        assert decibels(expected(model, feeds)["y"], exe.run(feeds)["y"]) < 60


def test_without_the_compiler(tmp_path: Path) -> None:
    model = model_of(SMALL)
    samples = samples_of(model)
    with quantized(model, samples, offload="numpy", offload_choice="always") as exe:
        exe.save(tmp_path / "model.rammer")
        np.save(tmp_path / "x.npy", samples["x"][0])
        found = exe.run(feeds_of(samples))["y"]
    script = (
        "import sys\nfor n in ('torch_mlir', 'mlir', 'llvmlite', 'onnx'): sys.modules[n] = None\n"
        "import numpy as np, rammer_mlir\n"
        "print(rammer_mlir.load(sys.argv[1]).run({'x': np.load(sys.argv[2])})['y'].tobytes().hex())"
    )
    command = [sys.executable, "-c", script, tmp_path / "model.rammer", tmp_path / "x.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found.tobytes().hex()


def layer() -> onnx.ModelProto:
    return model_of("(float[6,8] x) => (float[6,5] y) { y = MatMul(x, w85) }")


def test_the_command_line(tmp_path: Path) -> None:
    model = layer()
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", x=samples_of(model)["x"])
    command = [sys.executable, "-m", "rammer_mlir", "compile", "m.onnx", "--quantize", "8"]
    more = ["--calibration", "s.npz", "--quantize-bound", "30", "--quantize-method", "percentile"]
    done = subprocess.run(
        [*command, *more], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.search(
        r"quantized +1 of 1 regions\n  region 'host_0' \(MatMul_0\): \d+\.\d dB, 8 b", done.stdout
    )
    with rammer_mlir.load(tmp_path / "m.rammer") as exe:
        assert isinstance(exe, Executable) and "8 bits" in exe.summary


REFUSED: dict[str, tuple[dict[str, Any], type[RammerError], str]] = {
    "bits": ({"quantize": 4}, OptionError, "quantize: expected 8 or 16 bits, found 4"),
    "no samples": ({"quantize": 8, "calibration": None}, OptionError, "samples of the inputs for"),
    "nothing to do": ({"quantize": 0}, OptionError, "quantize: expected 8 or 16 with calibration"),
    "neither": ({"calibration": 7}, OptionError, "an .npz file, or arrays by name, found 7"),
    "a name": ({"calibration": "none.npz"}, InputError, "found no file 'none.npz'"),
    "a shape": ({"calibration": {"x": np.ones((2, 3), np.float32)}}, InputError, "shape 6x8 for"),
    "nan": (
        {"calibration": {"x": np.full((6, 8), np.nan, np.float32)}}, InputError, "found 48 NaN",
    ),
    "a method": ({"quantize_method": "mean"}, OptionError, "a method of minmax, percentile, entr"),
    "a bound": ({"quantize_bound": np.nan}, OptionError, "a bound in decibels, found nan"),
    "both": (
        {"quantize": 16, "quantize_dynamic": True}, OptionError, "found 16, which have no ranges",
    ),
    "a target": ({"target": "nvvm:sm_90"}, OptionError, "quantize: expected the CPU as target"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    changed, error, message = REFUSED[case]
    model = layer()
    given: Any = {"quantize": 8, "calibration": samples_of(model), **changed}
    with pytest.raises(error, match=re.escape(message)) as found:
        rammer_mlir.compile(model, cache=False, **given)
    assert "\n" not in str(found.value)


def test_a_model_whose_parts_the_host_runs() -> None:
    model = model_of("(float[6,8] x) => (int64[2,n] y) { m = MatMul(x, w88)  y = NonZero(m) }")
    with pytest.raises(OptionError, match="quantize: expected a model that is one program"):
        quantized(model, {"x": np.ones((2, 6, 8), np.float32)})


def test_the_key_of_the_cache_follows_the_samples(tmp_path: Path) -> None:
    content = layer().SerializeToString()
    samples = samples_of(layer())
    np.savez(tmp_path / "s.npz", x=samples["x"])

    def key(calibration: Any) -> str | None:
        options = check_options("cpu", quantize=8, calibration=calibration)
        return compile_key(content, options, None)

    found = key(samples)
    assert found is not None and found == key(tmp_path / "s.npz")
    assert found != key({"x": samples["x"] + 1})

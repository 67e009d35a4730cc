"""Tests that small networks of several kinds are right with each code generator.

The choice of regions, the policy and the number of vEUs vary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel

CODEGENS = ["numpy", "onnxruntime", "openvino", "onednn"]


@dataclass(frozen=True)
class Case:
    """A model, and the policy and the number of vEUs with which it is compiled."""

    model: str
    policy: str
    veus: int

    def __str__(self) -> str:
        return f"{self.model}-{self.policy}-{self.veus}"


CASES = [
    Case("resnet18", "wavefront", 2),
    Case("depthwise_net", "list", 3),
    Case("layer_norm_head", "wavefront", 1),
    Case("attention", "list", 2),
    Case("nas_cell", "wavefront", 3),
    Case("transformer_encoder", "list", 1),
]

PAIRS = [
    *((codegen, case) for codegen in CODEGENS for case in CASES),
    *(("iree", case) for case in CASES if case.model in ("layer_norm_head", "attention")),
]

CHOSEN = [
    (codegen, case)
    for codegen, case in PAIRS
    # Without AVX-512, IREE's regions of the layer norm leave the host more work than they save.
    if codegen != "iree" and case.model not in ("attention", "nas_cell", "resnet18")
]


@cache
def small(name: str) -> onnx.ModelProto:
    """Return a model at small scale."""
    return build(name, scale="small")


@cache
def expected(name: str) -> tuple[Any, dict[str, Any]]:
    """Return random inputs, and the outputs that ONNX Runtime computes from them, by name."""
    model = small(name)
    feeds = random_feeds(model, 4)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return feeds, dict(zip(names, map(np.asarray, session.run(names, feeds)), strict=True))


def compiled(case: Case, codegen: str, folder: Path, **options: Any) -> Executable:
    """Compile a case, prove its schedule, compare its outputs, and return the executable.

    The outputs must be close to ONNX Runtime's, and equal those of the saved and loaded artifact.
    """
    found = rammer_mlir.compile(
        small(case.model), offload=codegen, policy=case.policy, num_veus=case.veus, cache=False,
        **options,
    )  # fmt: skip
    assert isinstance(found, Executable)
    path = folder / "model.rammer"
    found.save(path)
    assert verify(path).veus == case.veus
    feeds, wanted = expected(case.model)
    outputs = found.run(feeds)
    assert outputs.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-3, atol=1e-4)
    with rammer_mlir.load(path) as loaded:
        for name, value in loaded.run(feeds).items():
            np.testing.assert_array_equal(value, outputs[name])
    return found


@pytest.mark.parametrize(("codegen", "case"), PAIRS, ids=str)
def test_everything_that_a_code_generator_takes(codegen: str, case: Case, tmp_path: Path) -> None:
    with compiled(case, codegen, tmp_path, offload_choice="always") as exe:
        assert exe.image.modules
        spans = exe.record(expected(case.model)[0]).spans
        assert {span.module for span in spans} - {""} == {m.name for m in exe.image.modules}


def foreign_is_free(kernel: RKernel, device: Device) -> float | None:
    """Return almost no time for foreign code; else None, so that the device's model is used."""
    return 1e-9 if "_x0" in kernel.name else None


@pytest.fixture
def free() -> Iterator[str]:
    """Yield the name of a cost function that favors foreign code, registered during the test."""
    COST_FUNCTIONS.register("free", foreign_is_free)
    yield "free"
    COST_FUNCTIONS.unregister("free")


@pytest.mark.parametrize(("codegen", "case"), CHOSEN, ids=str)
def test_regions_that_are_worth_it_are_kept(
    codegen: str, case: Case, free: str, tmp_path: Path
) -> None:
    with compiled(case, codegen, tmp_path, offload_choice="cost", costs=free) as exe:
        found = exe.stats["offload"]
        assert 0 < found["kept"] <= found["found"] and exe.image.modules
        assert found["chosen_seconds"] < found["host_seconds"]


@pytest.mark.parametrize("codegen", CODEGENS)
def test_the_choice_by_cost_is_right(codegen: str, tmp_path: Path) -> None:
    """Regions that the device's model chooses give right results.

    Their estimated time is at most that of no region and that of all regions.
    """
    with compiled(CASES[1], codegen, tmp_path, offload_choice="cost") as exe:
        found = exe.stats["offload"]
        assert bool(exe.image.modules) == (found["kept"] > 0)
        host, everything = found["host_seconds"], found["all_seconds"]
        # The search takes a slower program if each region that it omits saves less than this share.
        assert found["chosen_seconds"] <= min(host, everything) + 1e-4 * host * found["found"]

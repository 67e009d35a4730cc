"""The checker proves the compiler's artifacts, for all kinds of models, options and targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rammer_mlir
from rammer_mlir import dialects
from rammer_mlir.benchmarks.models import MODELS, build
from rammer_mlir.bindings import ir
from rammer_mlir.checker import verify
from rammer_mlir.embedding import compile_launches
from tests.embedding.test_embedding_api import host

POLICIES, VEUS = ("wavefront", "sequential", "list", "ios"), (1, 2, 3, 8)

SAMPLE = (
    ("mlp", {}),
    ("multi_io", {"policy": "ios", "num_veus": 3}),
    ("nas_cell", {"policy": "list", "num_veus": 8}),
    ("conv1d", {"policy": "sequential", "num_veus": 2}),
    ("gru_bidirectional", {"num_veus": 8}),
    ("depthwise_net", {"policy": "ios", "num_veus": 2, "winograd": False}),
    ("attention", {"costs": "ipu", "num_veus": 2}),
    ("one_element", {"target": "nvvm:sm_90", "per_operator": True, "num_veus": 3}),
    ("transformer_encoder", {"target": "rocdl:gfx90a", "per_operator": True, "num_veus": 8}),
    ("attention", {"target": "rocdl:gfx90a", "watchdog": 1000, "num_veus": 8}),
    ("integer_ops", {"target": "nvvm:sm_90", "num_veus": 132}),
)


def prove(path: Path, model: str, **options: Any) -> None:
    """Compile a model and prove its artifact."""
    with rammer_mlir.compile(build(model, scale="small"), **options) as executable:
        executable.save(path)
    verify(path)


@pytest.mark.parametrize(("model", "options"), SAMPLE)
def test_sample(model: str, options: dict[str, Any], tmp_path: Path) -> None:
    """The checker proves a sample of models, targets and options."""
    prove(tmp_path / "model.rammer", model, **options)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "nvvm:sm_90"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model(model: str, target: str, tmp_path: Path) -> None:
    """The checker proves every model with every policy; the number of vEUs varies by policy."""
    for number, policy in enumerate(POLICIES):
        veus = VEUS[(number + len(model)) % len(VEUS)]
        prove(tmp_path / "model.rammer", model, target=target, policy=policy, num_veus=veus)


@pytest.mark.parametrize("veus", [1, 3, 8])
@pytest.mark.parametrize("marks", ["", "{rtask.output}"])
def test_updates_in_place(marks: str, veus: int, tmp_path: Path) -> None:
    """The checker proves the program of a user's kernel launches that update a buffer in place."""
    context = ir.Context()
    dialects.register(context)
    with context:
        module = ir.Module.parse(host(marks))
    compile_launches(module, num_veus=veus).save(tmp_path / "launches.rammer")
    assert verify(tmp_path / "launches.rammer").rtasks == 8

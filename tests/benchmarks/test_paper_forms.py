"""Tests that the models of RAMMER's artifact compile, and have the sizes of that artifact.

The description of the V100 is fitted to RAMMER's times; the fit predicts the times on the page.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.contenders.onnx_runtime import run
from rammer_mlir.benchmarks.models import random_feeds
from rammer_mlir.benchmarks.models.counts import count
from rammer_mlir.benchmarks.papers.model_graphs import task_graph
from rammer_mlir.benchmarks.papers.rammer import fit, paper_forms
from rammer_mlir.benchmarks.papers.rammer.gpu_runs import DEVICE, compare
from rammer_mlir.benchmarks.papers.rammer.published import BASE_KERNELS, FIGURE_11
from rammer_mlir.scheduling.devices.catalog import find_device

V100 = find_device(DEVICE)


@pytest.mark.parametrize("name", paper_forms.FORMS)
def test_forms_compile_and_agree_with_the_reference(name: str) -> None:
    model = paper_forms.build(name, 2, "small")
    feeds = random_feeds(model, seed=1)
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        found = executable.run(feeds)
    for output, expected in run(model, feeds).items():
        np.testing.assert_allclose(found[output], expected.astype(np.float32), rtol=1e-4, atol=1e-5)


def test_sizes_are_those_of_the_artifact() -> None:
    lstm, seq2seq, ds2 = (
        count(paper_forms.build(name, 1, "full"))
        for name in ("lstm_tc_unrolled", "seq2seq_unrolled", "deepspeech2_unrolled")
    )
    assert lstm.flops == 2 * 1000 * 8 * 256 * 256
    assert seq2seq.flops == 2 * 920 * 256 * 512
    first, second = 150 * 86 * 32 * 41 * 11, 75 * 86 * 32 * 32 * 21 * 11
    cells = 75 * 1024 * (86 * 32 + 256 + 6 * 512)
    assert ds2.flops == 2 * (first + second + cells + 75 * 256 * 29)


def test_halves_are_disjoint() -> None:
    assert not set(fit.FITTED) & set(fit.CHECKED)
    assert {*fit.FITTED, *fit.CHECKED} == set(FIGURE_11) == set(BASE_KERNELS)
    assert all(BASE_KERNELS[name] < FIGURE_11[name]["base"] for name in FIGURE_11)


def test_descent_finds_a_minimum() -> None:
    goal = {"arithmetic_efficiency": 0.25, "rtask_seconds": 3e-6}

    def cost(found: dict[str, float]) -> float:
        return sum(log(found[name] / goal[name]) ** 2 for name in goal)

    found = fit.descend(cost, {"arithmetic_efficiency": 0.9, "rtask_seconds": 1e-7})  # pyright: ignore[reportArgumentType]
    assert found == pytest.approx(goal, rel=0.05)
    alike = fit.descend(lambda f: -f["arithmetic_efficiency"], {"arithmetic_efficiency": 0.5})
    assert alike["arithmetic_efficiency"] == 1.0


@pytest.mark.parametrize("name", ["resnext29_16x64d", "seq2seq_unrolled"])
def test_the_fit_predicts_as_the_page_does(name: str) -> None:
    graph = task_graph(paper_forms.build(name, 1, "small"), DEVICE)
    kernels, base, rammer = fit.planned(name, graph, V100).predicted(V100)
    found = compare(graph, V100.device())
    assert base == pytest.approx(found["base"]["ms"])
    assert kernels == pytest.approx(base - found["base"]["overhead_ms"])
    assert rammer == pytest.approx(found["select"]["ms"])
    slower = replace(V100, rtask_seconds=10 * V100.rtask_seconds)
    assert fit.planned(name, graph, V100).predicted(slower)[0] > kernels

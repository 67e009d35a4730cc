"""Tests that the explanation of a run has right lower bounds, losses and verdict.

The tools print it as text.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import run as run_tool
from rammer_mlir.explanation.explain import Explanation
from rammer_mlir.explanation.limits import Limits, limits_of, operator_times
from rammer_mlir.explanation.losses import losses
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.tasks import task_table
from rammer_mlir.timeline.predicted import predicted_timeline
from rammer_mlir.timeline.spans import Timeline
from tests.cli.tools import Tool, save_layer
from tests.scheduling.graphs import chain, random_graph

DEVICE = Device("d", 3, 1e9, 1e9, 2e9, 1e-8, 1e-7, 1e-6)


def predicted(graph: TaskGraph, policy: str, device: Device = DEVICE) -> tuple[Plan, Timeline]:
    plan = minimize(get_policy(policy).schedule(graph, device))
    return plan, predicted_timeline(graph, plan, device, policy)


@pytest.mark.parametrize("policy", ["sequential", "wavefront", "list"])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_below_the_run(seed: int, policy: str) -> None:
    graph = random_graph(seed, length=10)
    plan, timeline = predicted(graph, policy)
    found = limits_of(graph, plan, DEVICE, timeline)
    table = task_table(graph, DEVICE, plan.kernels)
    assert found.work == pytest.approx(sum(table.seconds) / DEVICE.num_veus)
    assert found.longest == pytest.approx(max(table.seconds))
    assert found.bound <= found.total
    assert sum(found.on_path.values()) == pytest.approx(found.total)

    def walk(task: int) -> float:
        behind = (walk(reader) for reader in table.readers[task])
        return table.seconds[task] + max(behind, default=0.0)

    assert found.chain == pytest.approx(max(map(walk, range(len(table.seconds)))))


def test_operators_of_one_name_share_their_time() -> None:
    graph = chain(3)
    plan, timeline = predicted(graph, "sequential")
    each = operator_times(graph, plan, timeline)
    # All read one rKernel's name, so that a timeline cannot tell them apart.
    kernel = graph.operators[0].kernels[0].name
    operators = (
        replace(o, name="same", kernels=tuple(replace(k, name=kernel) for k in o.kernels))
        for o in graph.operators
    )
    same = replace(graph, operators=tuple(operators))
    spans = tuple(
        tuple(replace(s, name="same", kernel=kernel) if s.kind == "rtask" else s for s in veu)
        for veu in timeline.veus
    )
    shared = operator_times(same, plan, Timeline("t", spans))
    assert sum(shared) == pytest.approx(sum(each))
    counts = [o.kernels[n].num_rtasks for o, n in zip(graph.operators, plan.kernels, strict=True)]
    assert shared == pytest.approx([sum(each) * count / sum(counts) for count in counts])


@pytest.mark.parametrize("seed", range(4))
def test_a_measured_loss_is_what_was_added(seed: int) -> None:
    graph = random_graph(seed, length=6)
    plan, timeline = predicted(graph, "list")
    slow = random.Random(seed).choice(graph.operators).name
    veus = tuple(
        tuple(replace(span, end=span.end + 1e-3) if span.name == slow else span for span in veu)
        for veu in timeline.veus
    )
    before = losses(graph, plan, DEVICE, timeline)
    after = losses(graph, plan, DEVICE, Timeline("slow", veus))
    spans = sum(span.name == slow for span in timeline.spans)
    assert after[0].name == slow
    gained = sum(loss.seconds for loss in after) - sum(loss.seconds for loss in before)
    assert gained == pytest.approx(1e-3 * spans)
    assert all(one.lost >= other.lost for one, other in pairwise(after))


NOTHING = Limits(
    1.0, 2, {"rtask": 1.0, "barrier": 0.0, "launch": 0.0}, 0.3, 0.3, 2, 0.1, "a", 0.2, 0.1
)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (replace(NOTHING, total=0.0), "nothing"),
        (replace(NOTHING, longest=0.6), "one long rTask: one of 'a' takes 60%"),
        (replace(NOTHING, work=0.9), "work: rTasks fill 90%.*arithmetic has"),
        (replace(NOTHING, work=0.9, memory=0.4), "work: .*memory traffic has"),
        (replace(NOTHING, chain=0.95), "the critical path: 2 rTasks .* 95%"),
        (
            replace(NOTHING, on_path={"rtask": 0.7, "barrier": 0.2, "launch": 0.1}),
            "barriers: waits and launches are 30%",
        ),
        (NOTHING, "the schedule: vEUs are busy for 30%"),
    ],
)
def test_the_verdict(limits: Limits, word: str) -> None:
    assert re.match(word, limits.verdict)


def test_better_schedules_are_named() -> None:
    found = Explanation("t", NOTHING, [], "wavefront", {"wavefront": 2.0, "list": 1.5})
    assert found.better == ("list", 0.25)
    assert "list is predicted to save 25.0%" in found.text()
    assert replace(found, policy="list").better is None
    assert "no policy is predicted to be faster" in replace(found, policy="list").text()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_layer(tmp_path / "layer.onnx")


def test_the_tools_explain(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool, page = Tool(compile_tool.main, capsys), tmp_path / "runs.html"
    artifact = tmp_path / "layer.rammer"
    text = tool.succeed(model, "-o", artifact, "--explain", "--timeline", page)
    assert "predicted on 'cpu'" in text
    assert "\nlimit  " in text
    assert "<h2>Explanation</h2>" in page.read_text(encoding="utf-8")
    runner = Tool(run_tool.main, capsys)
    assert "wavefront, measured with 1 vEUs" in runner.succeed(model, "--explain", "--veus", "1")
    emulated = runner.succeed(model, "--explain", "--target", "nvvm:sm_90", "--emulate")
    assert "predicted on 'h100'" in emulated
    assert "--explain: expected a model, but" in runner.fail(artifact, "--explain")
    message = tool.fail(model, "--emit", "program", "--explain")
    assert "--explain: expected a whole compilation" in message


def test_the_sizes_of_a_run_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_layer(tmp_path / "open.onnx", ("rows", 8))
    arrays = tmp_path / "in.npz"
    np.savez(arrays, x=np.ones((5, 8), np.float32))
    text = Tool(run_tool.main, capsys).succeed(path, "--explain", "--inputs", arrays)
    assert "measured with" in text

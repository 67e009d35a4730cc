"""Tests that selective state space models (Mamba) give ONNX Runtime's outputs, in few steps.

The recurrence of a layer is a loop; each iteration reads a frame, the vector of a sequence at one
time step. A step is a step of the host program: a part or a loop.
"""

from __future__ import annotations

from collections import Counter

import onnx
import pytest

from rammer_mlir.benchmarks.mamba import Feeds, exported, written
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.programs.host_program import Evaluate, Repeat
from tests.hosted.hosted_checks import check


def program_of(made: object) -> HostedModel:
    if isinstance(made, OpenModel):
        with made.held() as ((_, found),):
            made = found
    assert isinstance(made, HostedModel)
    return made


@pytest.mark.parametrize(
    "case",
    [
        exported(2, samples=640, width=48),
        exported(2, samples=640, width=48, has_slices=False),
        written(2, 80, width=48),
    ],
    ids=["exported", "without slices", "written"],
)
def test_the_loops_of_all_layers_share_a_body(case: tuple[onnx.ModelProto, Feeds]) -> None:
    """The host program of two layers has five steps: parts, and between them a loop for each layer.

    The host evaluates no operator itself. Each iteration of a loop reads one frame (time step) of
    each of its four operands, and both loops have the same body.
    """
    model, feeds = case
    program = program_of(check(model, [feeds])).program
    loops = [step for step in program.steps if isinstance(step, Repeat)]
    assert Counter(type(step) for step in program.steps)[Evaluate] == 0
    assert len(program.steps) == 5
    assert len({loop.body.part for loop in loops}) == 1
    for loop in loops:
        assert len(loop.sources) == 4
        assert not loop.is_counted

"""Tests that selective state space models give ONNX Runtime's outputs, and run few steps.

Their recurrences are loops over frames.
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
    """The host evaluates no operator between the loops; each loop reads its operands by frames.

    Parts and loops alternate, and the loops of all layers share a body.
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

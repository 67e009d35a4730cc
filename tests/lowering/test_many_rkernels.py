"""Tests that programs with many rKernels give right results.

In such programs, each rKernel's loop over rTasks is a function of its own; in other programs, these
loops are inline in the dispatch loop.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.contenders import onnx_runtime
from rammer_mlir.benchmarks.models import build
from rammer_mlir.compiler import steps
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.lowering.cpu import dispatch
from rammer_mlir.programs.records import RunRecord
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.feeds import random_feeds


@pytest.mark.parametrize("most", [0, 1000])
@pytest.mark.parametrize("name", ["nas_cell", "transformer_4_layers", "lstm_bidirectional"])
def test_numbers_and_records(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_MOST_INLINE", most)
    # Short programs have no dispatch loop otherwise.
    tabled = partial(steps.lower_program, straight_line_limit=0)
    monkeypatch.setattr(steps, "lower_program", tabled)
    model = build(name, scale="small")
    exe = rammer_mlir.compile(model, num_veus=2, cache=False)
    assert isinstance(exe, Executable)
    feeds = random_feeds(exe.signature, 0)
    wanted = onnx_runtime.run(model, feeds)
    for found in (exe.run(feeds), exe.run(feeds)):
        for key, value in wanted.items():
            assert np.allclose(found[key], value, rtol=1e-3, atol=1e-4)
    (launch,) = exe.image.program.launches
    tasks = sum(span.count for span in exe.record(feeds).spans)
    records = [record for veu in launch.veus for record in veu]
    assert tasks == sum(each.count for each in records if isinstance(each, RunRecord))


@pytest.mark.parametrize(("most", "is_apart"), [(0, True), (1000, False)])
def test_functions_are_defined_for_many(
    most: int, is_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_MOST_INLINE", most)
    compilation = Compilation.of_model(build("mlp", scale="small"), check_options())
    text = compilation.emit("llvm").decode()
    assert ("@rammer_run_0(" in text) == is_apart
    assert ("noinline" in text) == is_apart

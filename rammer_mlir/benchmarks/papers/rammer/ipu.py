"""Simulate RAMMER's recurrent models on an IPU (RAMMER section 5.3.2, figure 20).

As in the paper, the batch size is 1, and the models have 4 layers, so that they fit into the
memories of the IPU's tiles. RammerBase is the policy `sequential`, Rammer the policy `wavefront`.
Both execute supersteps with this project's rKernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.recurrent_models import (
    build_deepspeech2,
    build_lstm_tc,
    build_seq2seq,
)
from rammer_mlir.benchmarks.models.scale import Scale
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.program.program_ir import read_plan

LAYERS = 4

BUILDERS = {
    "deepspeech2": build_deepspeech2,
    "lstm_tc": build_lstm_tc,
    "seq2seq": build_seq2seq,
}


def predict(model: onnx.ModelProto, policy: str) -> tuple[float, int]:
    """Return a model's predicted seconds on the IPU by ``policy``, and the number of supersteps."""
    options = check_options("cpu", policy=policy, num_veus=None, costs="ipu")
    compilation = Compilation.of_model(model, options)
    compilation.emit("program")
    plan = read_plan(compilation.module).plan
    return plan.predicted_seconds, len(plan.programs)


@dataclass(frozen=True)
class IpuRun:
    """A case of the study: a recurrent model with 4 layers, whose time on the IPU is predicted."""

    model: str
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name in its study: the model, and the scale unless it is "full"."""
        return self.model if self.scale == "full" else f"{self.model}, {self.scale}"


def measure(run: IpuRun) -> Record:
    """Return a record of RammerBase and Rammer for a model on the IPU.

    The predicted milliseconds are "base" (RammerBase) and "rammer". The numbers of supersteps are
    "base steps" and "steps" (Rammer).
    """
    model = BUILDERS[run.model](1, run.scale, unrolled=True, layers=LAYERS)
    base, base_steps = predict(model, "sequential")
    rammer, steps = predict(model, "wavefront")
    return {"base": 1e3 * base, "rammer": 1e3 * rammer, "base steps": base_steps, "steps": steps}


STUDY = Study(
    "ipu",
    measure,
    cases=tuple(IpuRun(model) for model in BUILDERS),
    quick=(IpuRun("lstm_tc", "small"),),
)

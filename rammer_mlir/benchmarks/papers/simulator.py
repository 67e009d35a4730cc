"""Compare predicted with measured times of programs on this CPU, to find the simulator's error."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rammer_mlir.benchmarks import this_cpu
from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.benchmarks.prediction import PredictionRequest, predict_and_measure

MODELS = (
    "squeezenet", "light_squeezenet", "light_shufflenet", "mobilenet_v2", "light_inception_v1",
    "light_inception_v2", "light_resnet50", "inception_v3", "transformer_4_layers", "attention",
    "nas_cell", "lstm_bidirectional",
)  # fmt: skip


@dataclass(frozen=True)
class Programs:
    """A case of the study: models whose times are predicted and measured on this CPU.

    Attributes:
        models: names of benchmark models.
        threads: number of vEUs, each of which is a thread.
        scale: "full", or "small" for models of reduced sizes.
        budget: seconds of timing for each model.
        repeats: number of runs of each micro-benchmark that describes the CPU.
    """

    models: tuple[str, ...] = MODELS
    threads: int = 1
    scale: Scale = "full"
    budget: float = 1.0
    repeats: int = 15

    @property
    def key(self) -> str:
        """The case's name: the number of vEUs, and the scale unless it is "full"."""
        small = "" if self.scale == "full" else f", {self.scale}"
        return f"{self.threads} vEU{small}"


def measure(programs: Programs) -> Record:
    """Measure a device description of this CPU, then predict and measure the time of each model.

    The device description has this CPU's costs, from which the times are predicted.

    Returns:
        A record with the key "programs": for each model the fields of ``Prediction``, with times in
        seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "this_cpu.toml"
        text = this_cpu.description(this_cpu.measure(programs.repeats))
        path.write_text(text, encoding="utf-8")
        found = [
            prediction
            for model in programs.models
            for prediction in predict_and_measure(
                PredictionRequest(
                    model, str(path), (programs.threads,), scale=programs.scale,
                    budget=programs.budget,
                )
            )
        ]  # fmt: skip
    return {"programs": [asdict(prediction) for prediction in found]}


STUDY = Study(
    "simulator",
    measure,
    cases=(Programs(),),
    quick=(Programs(("mlp",), scale="small", budget=0.2, repeats=3),),
    is_timed=True,
)

"""Predict the time of one program for several independent models (RAMMER's inter-job scheduling).

The times are from the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.benchmarks.papers.model_graphs import task_graph
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.frontends.onnx.independent_models import together
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.simulated_plan import executed_plan
from rammer_mlir.scheduling.verifier import verify


@dataclass(frozen=True)
class Jobs:
    """A case of the study: models that are compiled into one program for a device.

    A model that occurs several times in ``models`` is executed several times.
    """

    models: tuple[str, ...]
    device: str = "v100"
    policy: str = "wavefront"
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the models, the device, and the scale unless it is "full"."""
        small = "" if self.scale == "full" else f", {self.scale}"
        return f"{' + '.join(self.models)}, {self.device}{small}"


def measure(jobs: Jobs) -> Record:
    """Predict the time of a program that runs several models at once, and of each model by itself.

    Returns:
        A record of milliseconds: "alone", the sum of the times of the models by themselves;
        "longest", the largest of these times; and "together", the time of the joint program.
    """
    models = {name: build(name, 1, jobs.scale) for name in set(jobs.models)}
    alone = {name: _milliseconds(model, jobs) for name, model in models.items()}
    named = {f"{name}_{n}": models[name] for n, name in enumerate(jobs.models)}
    return {
        "alone": sum(alone[name] for name in jobs.models),
        "longest": max(alone.values()),
        "together": _milliseconds(together(named), jobs),
    }


def _milliseconds(model: onnx.ModelProto, jobs: Jobs) -> float:
    device = find_device(jobs.device).device()
    graph = task_graph(model, jobs.device)
    plan = executed_plan(get_policy(jobs.policy), graph, device)
    verify(graph, plan)
    return 1e3 * plan.predicted_seconds


STUDY = Study(
    "joint models",
    measure,
    cases=(
        Jobs(("squeezenet", "nasnet_a_6_768")),
        Jobs(("light_shufflenet", "lstm_bidirectional")),
        Jobs(("transformer_4_layers", "mobilenet_v2")),
        Jobs(("squeezenet",) * 4),
    ),
    quick=(Jobs(("squeezenet", "nas_cell"), scale="small"),),
)

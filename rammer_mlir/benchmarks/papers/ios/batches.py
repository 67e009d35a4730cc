"""Execute IOS's stages of Inception v3 on batch sizes and devices other than those of the search.

This is the experiment of IOS section 7.2, table 3 and figures 10 and 11. All times are from the
simulator. Only the stages are transferred, that is, the grouping and the order of the operators.
The rKernels are those for the batch size and device of the execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.benchmarks.papers.model_graphs import model_graph
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.verifier import verify

SPECIALIZED = (1, 32, 128)
"""The batch sizes of IOS's table 3."""
BATCHES = (1, 16, 32, 64, 128)
"""The batch sizes of IOS's figure 11."""
DEVICES = ("v100", "h100", "mi50")
MODEL = "inception_v3"

Setting = tuple[TaskGraph, Device]
"""A network compiled for a batch size and a device, and the device."""

Stages = Sequence[Sequence[int]]
"""Indices of the operators of each stage."""


@dataclass(frozen=True)
class Batches:
    """A case of the study: the batch sizes of Inception v3 that are compared on a device."""

    batches: tuple[int, ...] = BATCHES
    device: str = "v100"
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the device, and the scale unless it is "full"."""
        return self.device if self.scale == "full" else f"{self.device}, {self.scale}"


@dataclass(frozen=True)
class Devices:
    """A case of the study: the devices that are compared on Inception v3 with batch size 1."""

    devices: tuple[str, ...] = DEVICES
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the devices, and the scale unless it is "full"."""
        names = " ".join(self.devices)
        return names if self.scale == "full" else f"{names}, {self.scale}"


def setting(name: str, device: str, batch: int, scale: Scale = "full") -> Setting:
    """Return the task graph of a benchmark model and the device, as a pair.

    ``name`` is the model's name, ``device`` the device's name, ``batch`` the batch size. The graph
    is made for the device.
    """
    return model_graph(name, device, batch, scale), find_device(device).device()


def made_for(settings: Sequence[Setting]) -> list[Stages]:
    """Return the stages that the policy `ios` finds for each setting (task graph and device).

    Raises:
        OptionError: if the settings' graphs differ in their number of operators.
    """
    counts = {len(graph.operators) for graph, _ in settings}
    if len(counts) != 1:
        raise OptionError(f"settings: expected equal numbers of operators, found {sorted(counts)}")
    return [Ios(barriers="stage").stages(graph, device) for graph, device in settings]


def cross(settings: Sequence[Setting], made: Sequence[Stages]) -> list[list[float]]:
    """Return the predicted seconds of executing each set of stages on each setting, as a matrix.

    A setting is a task graph and a device. Element [i][j] is the time of executing the stages
    ``made[j]``, which were found for setting j, on setting i.
    """
    return [[seconds(graph, device, stages) for stages in made] for graph, device in settings]


def seconds(graph: TaskGraph, device: Device, stages: Stages) -> float:
    """Verify the plan that executes ``stages``, and return its predicted seconds.

    As in IOS, a stage begins when all operators of the previous stage have ended.
    """
    plan = place_stages(graph, device, stages, "stage")
    verify(graph, plan)
    return plan.predicted_seconds


def measure_batches(request: Batches) -> Record:
    """Predict the times of Inception v3 at several batch sizes, with the stages found for each.

    Returns:
        A record with these keys:

        - "batches": the batch sizes.
        - "sequential": the seconds at each batch size, with a stage per operator.
        - "ios": the seconds at each batch size, with the stages that IOS finds for this size.
        - "specialized": the batch sizes that are also in ``SPECIALIZED``.
        - "cross": the matrix of ``cross`` for the sizes in "specialized": a row per batch size of
          the execution, a column per batch size for which the stages were found.
        - "stages": for each size in "specialized", a list of its stages; a stage is a list of
          operator names.
    """
    settings = [setting(MODEL, request.device, n, request.scale) for n in request.batches]
    made = made_for(settings)
    sequential = [seconds(*one, _one_by_one(one[0])) for one in settings]
    own = [seconds(*one, stages) for one, stages in zip(settings, made, strict=True)]
    special = [n for n, batch in enumerate(request.batches) if batch in SPECIALIZED]
    names = [operator.name for operator in settings[0][0].operators]
    return {
        "batches": list(request.batches),
        "sequential": sequential,
        "ios": own,
        "specialized": [request.batches[n] for n in special],
        "cross": cross([settings[n] for n in special], [made[n] for n in special]),
        "stages": [[[names[n] for n in stage] for stage in made[n]] for n in special],
    }


def measure_devices(request: Devices) -> Record:
    """Predict the times of Inception v3 on several devices, with the stages found for each device.

    Returns:
        A record with these keys:

        - "devices": the names of the devices.
        - "cross": the matrix of ``cross`` for the devices.
    """
    settings = [setting(MODEL, device, 1, request.scale) for device in request.devices]
    return {"devices": list(request.devices), "cross": cross(settings, made_for(settings))}


def _one_by_one(graph: TaskGraph) -> Stages:
    return [[number] for number in range(len(graph.operators))]


BATCH_STUDY = Study(
    "ios batches", measure_batches, cases=(Batches(),), quick=(Batches((1, 32), scale="small"),)
)
DEVICE_STUDY = Study(
    "ios devices", measure_devices, cases=(Devices(),), quick=(Devices(("v100", "h100"), "small"),)
)

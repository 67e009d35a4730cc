"""Compare barriers between waves, operators and tiles, on random modules (RAMMER figure 18).

This is the experiment of RAMMER section 5.2.5. The baseline launches the operators one after the
other, with the fastest rKernels. In the other plans, the policy `wavefront` places the rTasks, and
barriers are put between waves, between operators, or between rTasks (tiles). A module is irregular
if the operators of a wave differ in the number or the size of their rTasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rammer_mlir.benchmarks.papers.rammer.gpu_modules import gpu_module
from rammer_mlir.benchmarks.papers.rammer.gpu_runs import DEVICE, RAMMER
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.coarse_barriers import BarrierMode, with_barriers
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import waves
from rammer_mlir.scheduling.verifier import verify

MODULES, CHUNK = 5000, 500
"""Number of modules in the paper, and number of modules in a case."""

RATIOS = ("base_to_rtask", "launch_free", "wave_to_tile", "operator_to_tile")
DIGITS = 4
"""Number of decimal places of ratios in records."""

MODES: tuple[BarrierMode, ...] = ("wave", "operator", "tile")


@dataclass
class Found:
    """Ratios of predicted times, and numbers of waits, with an element for each random module.

    In all ratios, the denominator is the time with barriers between tiles. The keys of
    ``requested`` and ``waits`` are the kinds of barriers: "wave", "operator", "tile".

    Attributes:
        base_to_rtask: ratio for a launch per operator.
        launch_free: ratio for the sequential order in one launch.
        irregular: whether the operators of a wave differ in the number or the size of their rTasks.
        wave_to_tile: ratio for barriers between waves.
        operator_to_tile: ratio for barriers between operators.
        requested: number of waits of the plan before redundant waits are removed.
        waits: number of waits of the plan after redundant waits are removed.
    """

    base_to_rtask: list[float] = field(default_factory=list[float])
    launch_free: list[float] = field(default_factory=list[float])
    irregular: list[bool] = field(default_factory=list[bool])
    wave_to_tile: list[float] = field(default_factory=list[float])
    operator_to_tile: list[float] = field(default_factory=list[float])
    requested: dict[str, list[int]] = field(default_factory=lambda: {mode: [] for mode in MODES})
    waits: dict[str, list[int]] = field(default_factory=lambda: {mode: [] for mode in MODES})


def is_irregular(graph: TaskGraph, device: Device) -> bool:
    """Return whether the operators of a wave differ in the number or the size of their rTasks.

    The size of an rTask is its number of scalar operations and its number of bytes.
    """
    for wave in waves(Context(graph, device)):
        kernels = [graph.operators[number].kernels[0] for number in wave]
        if len({(k.num_rtasks, k.flops_per_rtask, k.bytes_per_rtask) for k in kernels}) > 1:
            return True
    return False


@dataclass(frozen=True)
class Modules:
    """A case of the study: random modules of the seeds ``first`` to ``end - 1`` on a device."""

    first: int
    end: int
    device: str = DEVICE

    @property
    def key(self) -> str:
        """The case's name: the range of seeds and the device."""
        return f"{self.first} to {self.end - 1}, {self.device}"


def compare(seeds: Iterable[int], device: Device) -> Found:
    """Schedule the module of each seed in five ways; return ratios of times, and numbers of waits.

    The ways are a launch for each operator, the same order in one launch, and `wavefront`'s
    placement with barriers between waves, operators or tiles. Every plan is verified.
    """
    found = Found()
    for seed in seeds:
        graph = gpu_module(seed)
        in_order = Sequential().schedule(graph, device)
        base = one_by_one(graph, in_order, device)
        rtask = RAMMER.schedule(graph, device)
        modes = {mode: with_barriers(graph, rtask, device, mode) for mode in MODES}
        for plan in (in_order, base, rtask, *modes.values()):
            verify(graph, plan)
        best = modes["tile"].predicted_seconds
        found.base_to_rtask.append(base.predicted_seconds / best)
        found.launch_free.append(in_order.predicted_seconds / best)
        found.irregular.append(is_irregular(graph, device))
        found.wave_to_tile.append(modes["wave"].predicted_seconds / best)
        found.operator_to_tile.append(modes["operator"].predicted_seconds / best)
        for mode, plan in modes.items():
            found.requested[mode].append(plan.requested_waits)
            found.waits[mode].append(plan.num_waits)
    return found


def measure(modules: Modules) -> Record:
    """Compare the kinds of barriers on the modules of a range of seeds; return a record.

    The keys of the record are the fields of ``Found``, and "example". The example is the module for
    which barriers between tiles gain most over barriers between waves: its seed and its operators,
    as ``_operators`` describes them.
    """
    device = find_device(modules.device).device()
    seeds = range(modules.first, modules.end)
    found = compare(seeds, device)
    best = max(seeds, key=lambda seed: found.wave_to_tile[seed - modules.first])
    rounded = {
        name: [round(value, DIGITS) for value in values] if name in RATIOS else values
        for name, values in vars(found).items()
    }
    return {**rounded, "example": _operators(best, device)}


def _operators(seed: int, device: Device) -> Record:
    """Describe the operators of the module of ``seed``, scheduled on ``device`` by `wavefront`.

    An operator has a name, its wave, its number of rTasks, and the predicted microseconds of an
    rTask.
    """
    graph = gpu_module(seed)
    plan = RAMMER.schedule(graph, device)
    kernels = [o.kernels[n] for o, n in zip(graph.operators, plan.kernels, strict=True)]
    wave_of = {n: wave for wave, ns in enumerate(waves(Context(graph, device))) for n in ns}
    return {
        "module": seed,
        "operators": [
            {
                "name": operator.name,
                "wave": wave_of[n],
                "rtasks": kernel.num_rtasks,
                "microseconds": 1e6 * rtask_seconds(kernel, device),
            }
            for n, (operator, kernel) in enumerate(zip(graph.operators, kernels, strict=True))
        ],
    }


STUDY = Study(
    "barriers",
    measure,
    cases=tuple(Modules(first, first + CHUNK) for first in range(0, MODULES, CHUNK)),
    quick=(Modules(0, 12),),
)

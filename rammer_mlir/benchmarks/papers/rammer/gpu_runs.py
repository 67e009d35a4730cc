"""Networks on a simulated GPU: operators launched one by one, and whole rPrograms.

The base launches operator after operator (RammerBase), Rammer runs one rProgram by Algorithm 1.
Each runs with two sets of rKernels: every operator's fastest one by itself, and those that
Algorithm 1 selects among all candidates, which trade an operator's own time for room beside it.
rTasks that run at the same time share the memory's bandwidth (``scheduling.shared_bandwidth``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Literal

from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.benchmarks.papers.model_graphs import task_graph
from rammer_mlir.benchmarks.papers.rammer import paper_forms
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.scheduling.costs import fastest, runtime
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.shared_bandwidth import simulate_sharing
from rammer_mlir.scheduling.verifier import verify

DEVICE = "v100_rammer"
"""The V100 as RAMMER's artifact reached it (``fit``)."""

TABLE_1 = (
    "resnext29_16x64d", "nasnet_a_6_768", "alexnet",
    "deepspeech2_unrolled", "lstm_tc_unrolled", "seq2seq_unrolled",
)  # fmt: skip
"""RAMMER's benchmark models, the recurrent ones in the paper's form: a graph of all cells."""

BATCHED = ("resnext29_16x64d", "lstm_tc_unrolled")
"""The models that the paper also runs with batches of 4 and 16."""

IMAGENET = ("resnext101_64x4d", "nasnet_a_4_1056")


@dataclass(frozen=True)
class GpuRun:
    """A model to schedule for a device, as the paper's artifact has it or as this project does."""

    model: str
    device: str = DEVICE
    batch: int = 1
    scale: Scale = "full"
    form: Literal["paper", "own"] = "paper"

    @property
    def key(self) -> str:
        """The model, the batch size, the device, and scale and form unless they are the usual."""
        small = "" if self.scale == "full" else f", {self.scale}"
        own = "" if self.form == "paper" else ", own form"
        return f"{self.model}, batch {self.batch}, {self.device}{small}{own}"


@dataclass(frozen=True)
class Run:
    """Where the predicted time of a plan goes.

    Attributes:
        launches: number of rPrograms.
        ms: of the whole plan.
        overhead_ms: before kernels begin, for all launches together; the rest is time in kernels.
            Barriers inside a program are part of its kernel, in the paper too.
        barriers_ms: in barriers inside kernels, on average over the vEUs.
        utilization: share of the vEUs' time in kernels that is spent in rTasks.
    """

    launches: int
    ms: float
    overhead_ms: float
    barriers_ms: float
    utilization: float


def run_of(graph: TaskGraph, plan: Plan, device: Device) -> Run:
    """Simulate a plan that the verifier accepts.

    Raises:
        ScheduleError: if it does not.
    """
    verify(graph, plan)
    simulation = simulate_sharing(graph, plan, device)
    launches = sum(program.num_rtasks > 0 for program in plan.programs)
    overhead = sum(device.start_seconds(number) for number in range(launches))
    everything = sum(event.end - event.start for event in simulation.events)
    in_kernels = device.num_veus * (simulation.seconds - overhead)
    return Run(
        launches,
        1e3 * simulation.seconds,
        1e3 * overhead,
        1e3 * simulation.waiting_seconds / device.num_veus,
        (everything - simulation.waiting_seconds) / in_kernels,
    )


def with_kernels(graph: TaskGraph, kernels: Sequence[int]) -> TaskGraph:
    """Return a graph that offers one rKernel for each operator."""
    operators = zip(graph.operators, kernels, strict=True)
    offered = (replace(operator, kernels=(operator.kernels[n],)) for operator, n in operators)
    return replace(graph, operators=tuple(offered))


def measure(request: GpuRun) -> Record:
    """Schedule a model in all four ways and count it."""
    builder = paper_forms.build if request.form == "paper" else build
    graph = task_graph(builder(request.model, request.batch, request.scale), request.device)
    return compare(graph, find_device(request.device).device())


def compare(graph: TaskGraph, device: Device) -> Record:
    """Return the runs ``base``, ``base_select``, ``fast`` and ``select``, and the graph's size.

    ``fills`` are the base's operators without arithmetic: borders, and copies.
    """
    fast = [fastest(operator, device) for operator in graph.operators]
    selected = Wavefront().schedule(graph, device)
    runs = {"select": run_of(graph, selected, device)}
    offered = with_kernels(graph, fast)
    runs["fast"] = run_of(offered, Wavefront().schedule(offered, device), device)
    for name, kernels in (("base", fast), ("base_select", selected.kernels)):
        offered = with_kernels(graph, kernels)
        plan = one_by_one(offered, Sequential().schedule(offered, device), device)
        runs[name] = run_of(offered, plan, device)
    chosen = [operator.kernels[n] for operator, n in zip(graph.operators, fast, strict=True)]
    fills = [kernel for kernel in chosen if not kernel.flops_per_rtask]
    each = device.start_seconds(1)
    return {
        "operators": len(graph.operators),
        "fills": {
            "launches": len(fills),
            "ms": 1e3 * sum(each + runtime(kernel, device) for kernel in fills),
        },
        "rtasks": sum(kernel.num_rtasks for kernel in chosen),
        "gflops": sum(kernel.num_rtasks * kernel.flops_per_rtask for kernel in chosen) / 1e9,
        "changed": mean(a != b for a, b in zip(fast, selected.kernels, strict=True)),
        **{name: vars(run) for name, run in runs.items()},
    }


STUDY = Study(
    "gpu runs",
    measure,
    cases=(
        *(GpuRun(model) for model in TABLE_1),
        GpuRun("resnext29_16x64d", form="own"),
    ),
    quick=tuple(GpuRun(model, scale="small") for model in BATCHED),
)
IMAGENET_STUDY = Study(
    "gpu runs for ImageNet",
    measure,
    cases=(*(GpuRun(model) for model in IMAGENET), GpuRun("resnext101_64x4d", form="own")),
    quick=(GpuRun("resnext101_64x4d", scale="small"),),
)
BATCH_STUDY = Study(
    "gpu batches",
    measure,
    cases=(
        *(GpuRun(model, batch=4) for model in BATCHED),
        *(GpuRun(model, batch=16) for model in TABLE_1),
    ),
    quick=(GpuRun("resnext29_16x64d", batch=4, scale="small"),),
)
MI50_STUDY = Study(
    "gpu runs on an MI50",
    measure,
    cases=tuple(GpuRun(model, "mi50") for model in TABLE_1),
    quick=(GpuRun("resnext29_16x64d", "mi50", scale="small"),),
)

"""Simulate networks on a GPU: with a launch for each operator, and as one rProgram.

RammerBase launches the operators one after the other. Rammer executes one rProgram that RAMMER's
Algorithm 1 schedules. Each of the two is simulated with two sets of rKernels:

- the fastest rKernel of every operator by itself
- the candidates that Algorithm 1 selects: an operator may take longer, so that more vEUs are free
  for other operators

rTasks that run concurrently share the memory's bandwidth (``scheduling.shared_bandwidth``).
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
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.shared_bandwidth import simulate_sharing
from rammer_mlir.scheduling.verifier import verify

DEVICE = "v100_rammer"
"""Description of a V100 whose numbers are fitted to RAMMER's artifact, by ``fit``."""

RAMMER = Wavefront(readiness="operator")
"""The policy of Rammer's predicted runs.

The published runs had a launch between waves, so the readiness of single rTasks did not count.
"""

TABLE_1 = (
    "resnext29_16x64d", "nasnet_a_6_768", "alexnet",
    "deepspeech2_unrolled", "lstm_tc_unrolled", "seq2seq_unrolled",
)  # fmt: skip
"""Names of the models of RAMMER's table 1.

Recurrent models are unrolled to a graph of all cells, as in the paper.
"""

BATCHED = ("resnext29_16x64d", "lstm_tc_unrolled")
"""The models that the paper also runs with batches of 4 and 16."""

IMAGENET = ("resnext101_64x4d", "nasnet_a_4_1056")


@dataclass(frozen=True)
class GpuRun:
    """A case of the study: a model that is scheduled for a device.

    ``form`` selects the model's operator graph: "paper" selects the graph of RAMMER's artifact,
    "own" selects this project's graph.
    """

    model: str
    device: str = DEVICE
    batch: int = 1
    scale: Scale = "full"
    form: Literal["paper", "own"] = "paper"

    @property
    def key(self) -> str:
        """The case's name: model, batch size and device.

        The scale and the form follow if they are not the defaults.
        """
        small = "" if self.scale == "full" else f", {self.scale}"
        own = "" if self.form == "paper" else ", own form"
        return f"{self.model}, batch {self.batch}, {self.device}{small}{own}"


@dataclass(frozen=True)
class Run:
    """The predicted times of a plan.

    Attributes:
        launches: number of rPrograms, each of which is a launch.
        ms: milliseconds of the whole plan.
        overhead_ms: milliseconds outside of kernels, which all launches take before their kernels
            begin. As in the paper, barriers inside a kernel are part of the kernel.
        barriers_ms: milliseconds of waits at barriers, the mean over the vEUs.
        utilization: fraction of the vEUs' time in kernels that is spent in rTasks.
    """

    launches: int
    ms: float
    overhead_ms: float
    barriers_ms: float
    utilization: float


def run_of(graph: TaskGraph, plan: Plan, device: Device) -> Run:
    """Verify and simulate a plan of a graph on a device; return the predicted times.

    Raises:
        ScheduleError: if the plan is invalid.
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
    """Return a copy of the graph in which each rOperator has one candidate rKernel only.

    ``kernels`` has the index of this candidate for each rOperator.
    """
    operators = zip(graph.operators, kernels, strict=True)
    offered = (replace(operator, kernels=(operator.kernels[n],)) for operator, n in operators)
    return replace(graph, operators=tuple(offered))


def measure(request: GpuRun) -> Record:
    """Build the model of a case, and return the record that ``compare`` makes of its task graph."""
    builder = paper_forms.build if request.form == "paper" else build
    graph = task_graph(builder(request.model, request.batch, request.scale), request.device)
    return compare(graph, find_device(request.device).device())


def compare(graph: TaskGraph, device: Device) -> Record:
    """Simulate a graph with RammerBase and with Rammer, each with two sets of rKernels.

    Returns:
        A record with these keys:

        - "base": fields of ``Run`` for RammerBase with the fastest rKernels.
        - "base_select": fields of ``Run`` for RammerBase with the rKernels that Algorithm 1
          selects.
        - "fast": fields of ``Run`` for Rammer with the fastest rKernels.
        - "select": fields of ``Run`` for Rammer with the rKernels that Algorithm 1 selects.
        - "changed": fraction of the operators for which the two sets differ.
        - "operators": number of rOperators.
        - "rtasks": number of rTasks with the fastest rKernels.
        - "gflops": scalar operations of these rTasks, in billions.
        - "fills": RammerBase's launches of operators without arithmetic: "launches", their
          number, and "ms", their milliseconds.
    """
    fast = [fastest(operator, device) for operator in graph.operators]
    selected = RAMMER.schedule(graph, device)
    runs = {"select": run_of(graph, selected, device)}
    offered = with_kernels(graph, fast)
    runs["fast"] = run_of(offered, RAMMER.schedule(offered, device), device)
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

"""Predict the times of the graph in IOS's figure 2 with sequential, greedy and IOS's stages.

The times are from the simulator. The graph has four 3x3 convolutions: *a* with 384 output channels,
*b* with 768, *c* with 384, and *d* with 768. *a*, *c* and *d* read the input, and *b* reads *a*.
The results of *b*, *c* and *d* are concatenated. The figure states 0.6 and 1.2 GFLOPs for the
convolutions, from which it follows that the input has 15 x 15 pixels and 384 channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder
from rammer_mlir.benchmarks.papers.model_graphs import task_graph
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.policies.wavefront import waves
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.verifier import verify


@dataclass(frozen=True)
class Example:
    """A case of the study: the graph of IOS's figure 2 on a device.

    ``channels`` is the number of input channels.
    """

    device: str = "v100"
    channels: int = 384

    @property
    def key(self) -> str:
        """The case's name: the device and the number of input channels."""
        return f"{self.device}, {self.channels} channels"


def build(channels: int) -> onnx.ModelProto:
    """Build the graph: ``x`` [1, channels, 15, 15] f32 to ``y`` [1, 5 * channels, 15, 15] f32."""
    g = GraphBuilder("ios_figure_2", seed=2)
    x = g.input("x", [1, channels, 15, 15])
    a, c, d = (g.op("Relu", g.conv(x, n * channels, 3)) for n in (1, 1, 2))
    b = g.op("Relu", g.conv(a, 2 * channels, 3))
    g.output(g.op("Concat", b, c, d, axis=1), "y")
    return g.finish()


def measure(request: Example) -> Record:
    """Predict the execution of the graph with sequential, greedy and IOS's stages.

    Returns:
        A record with a dictionary for "sequential", "greedy" and "ios":

        - "ms": the milliseconds.
        - "utilization": the arithmetic rate divided by the device's peak.
        - "busy veus": the mean number of vEUs that execute rTasks.
        - "stages": the names of the operators in each stage.
    """
    graph = task_graph(build(request.channels), request.device)
    device = find_device(request.device).device()
    stages = {
        "sequential": [[n] for n in range(len(graph.operators))],
        "greedy": waves(Context(graph, device)),
        "ios": Ios(barriers="stage").stages(graph, device),
    }
    return {name: _executed(graph, device, found) for name, found in stages.items()}


def _executed(graph: TaskGraph, device: Device, stages: Sequence[Sequence[int]]) -> Record:
    plan = place_stages(graph, device, stages, "stage")
    verify(graph, plan)
    run = simulate(graph, plan, device)
    kernels = [o.kernels[n] for o, n in zip(graph.operators, plan.kernels, strict=True)]
    flops = sum(kernel.num_rtasks * kernel.flops_per_rtask for kernel in kernels)
    peak = device.num_veus * device.flops_per_second
    busy = sum(event.end - event.start for event in run.events) - run.waiting_seconds
    return {
        "ms": 1e3 * run.seconds,
        "utilization": flops / (run.seconds * peak),
        "busy veus": busy / run.seconds,
        "stages": [[graph.operators[n].name for n in stage] for stage in stages],
    }


STUDY = Study("ios example", measure, cases=(Example(),), quick=(Example(channels=32),))

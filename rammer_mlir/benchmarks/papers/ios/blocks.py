"""Predict the time of each block of Inception v3, in sequence and by IOS's stages (IOS figure 16).

A block is a set of consecutive operators that IOS schedules together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.benchmarks.papers.model_graphs import model_graph
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.program import Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.verifier import verify

FEWEST = 4
"""Smallest number of operators of a block; shorter chains between modules are no blocks."""


@dataclass(frozen=True)
class Blocks:
    """A case of the study: a network whose blocks are timed on a device."""

    model: str = "inception_v3"
    device: str = "v100"
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the model, the device, and the scale unless it is "full"."""
        small = "" if self.scale == "full" else f", {self.scale}"
        return f"{self.model}, {self.device}{small}"


def measure(request: Blocks) -> Record:
    """Predict the time of each block of a network, sequentially and by IOS's stages.

    Returns:
        A record with three lists, which have an element for each block of at least ``FEWEST``
        operators: "operators", the count of operators; "sequential", milliseconds with a stage per
        operator; and "ios", milliseconds with IOS's stages. The key "network" has the times of the
        whole network, keyed by "sequential" and "ios".
    """
    graph = model_graph(request.model, request.device, scale=request.scale)
    device = find_device(request.device).device()
    policy = Ios(barriers="stage")
    blocks = policy.blocks(graph, device)
    in_order = [[n] for block in blocks for n in block]
    runs = {"sequential": in_order, "ios": policy.stages(graph, device)}
    found = {name: milliseconds(graph, device, blocks, stages) for name, stages in runs.items()}
    several = [n for n, block in enumerate(blocks) if len(block) >= FEWEST]
    return {
        "operators": [len(blocks[n]) for n in several],
        **{name: [times[n] for n in several] for name, times in found.items()},
        "network": {name: sum(times) for name, times in found.items()},
    }


def milliseconds(
    graph: TaskGraph,
    device: Device,
    blocks: Sequence[Sequence[int]],
    stages: Sequence[Sequence[int]],
) -> list[float]:
    """Return the predicted milliseconds of each block if ``stages`` are executed.

    A block begins when the previous block ends. The first block's time includes the launch.

    Args:
        graph: the task graph of the network.
        device: the device that executes the stages.
        blocks: for each block, the indices of its operators.
        stages: for each stage, the indices of its operators, all of which are in the same block.
            The stages are in the order of the blocks.
    """
    plan = place_stages(graph, device, stages, "stage")
    verify(graph, plan)
    block_of = {operator: n for n, block in enumerate(blocks) for operator in block}
    ends = [0.0] * len(blocks)
    for event in simulate(graph, plan, device).events:
        if isinstance(event.item, Run):
            block = block_of[event.item.operator]
            ends[block] = max(ends[block], event.end)
    return [1e3 * (end - before) for before, end in zip([0.0, *ends], ends, strict=False)]


STUDY = Study("ios blocks", measure, cases=(Blocks(),), quick=(Blocks(scale="small"),))

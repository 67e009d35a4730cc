"""Count operators, convolutions, transitions and schedules (IOS figures 1 and 5, table 1).

These counts depend on no device.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.benchmarks.models.counts import convolution_flops
from rammer_mlir.benchmarks.papers.ios.blocks_of_table_1 import BLOCKS, SQUEEZENET, Block
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.scheduling.ios_blocks import most_transitions, width
from rammer_mlir.scheduling.ios_dynamic_programming import count

FIGURE_5 = Block("three operators", 3, [(0, 1)], "", "")
"""The graph of IOS's figure 5: operator 0 is read by 1; operator 2 is independent of both."""


@dataclass(frozen=True)
class Convolutions:
    """A case of the study: a network whose convolutions are counted."""

    model: str
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the model, and the scale unless it is "full"."""
        return self.model if self.scale == "full" else f"{self.model}, {self.scale}"


def measure_block(block: Block) -> Record:
    """Count a block's operators, and the transitions and schedules of IOS's search in the block.

    A state of the search is a set of operators. A transition is a pair of a state and a subset of
    the state that is tried as the last stage.

    Returns:
        A record with these keys:

        - "operators": the number of operators.
        - "width": the largest number of operators that are independent of each other.
        - "bound": IOS's upper bound of the number of transitions.
        - "transitions", "schedules": the numbers of transitions and of possible schedules.
    """
    sources: list[list[int]] = [[] for _ in range(block.operators)]
    for producer, reader in block.edges:
        sources[reader].append(producer)
    transitions, schedules = count(block.readers)
    return {
        "operators": block.operators,
        "width": width(sources),
        "bound": most_transitions(sources),
        "transitions": transitions,
        "schedules": schedules,
    }


def measure_convolutions(request: Convolutions) -> Record:
    """Count a network's convolutions and their scalar operations.

    Returns:
        A record: "convolutions", the number of convolutions, and "mflops", the mean number of
        scalar operations of a convolution in millions.
    """
    flops = convolution_flops(build(request.model, 1, request.scale))
    return {"convolutions": len(flops), "mflops": sum(flops) / len(flops) / 1e6}


BLOCK_STUDY = Study(
    "ios blocks counted", measure_block, cases=(*BLOCKS, FIGURE_5), quick=(SQUEEZENET, FIGURE_5)
)
CONVOLUTION_STUDY = Study(
    "convolutions",
    measure_convolutions,
    cases=tuple(Convolutions(model) for model in ("vgg19", "inception_v3", "nasnet_a_6_4032")),
    quick=(Convolutions("inception_v3", "small"),),
)

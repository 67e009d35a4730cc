"""List the largest blocks of four networks, with the counts of IOS's Table 1.

The counts are the numbers of transitions of IOS's search, and of possible schedules. An operator is
a unit that the authors schedule: a convolution with its ReLU, a separable convolution with its
ReLU, a pooling, or the sum or concatenation of several results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Edges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Block:
    """A block of a network: operators that IOS schedules together.

    Attributes:
        network: name of the network.
        operators: number of operators. Operators are numbered from 0 in topological order.
        edges: pairs of operators: one that computes a result, and one that reads the result.
        transitions: number of transitions of IOS's search, as the paper prints it.
        schedules: number of possible schedules, as the paper prints it.
    """

    network: str
    operators: int
    edges: Edges
    transitions: str
    schedules: str

    @property
    def key(self) -> str:
        """The network's name, which identifies the case in its study."""
        return self.network

    @property
    def readers(self) -> list[int]:
        """For each operator, a bit mask of the operators that read its result."""
        masks = [0] * self.operators
        for producer, reader in self.edges:
            masks[producer] |= 1 << reader
        return masks


def _chains(*chains: Sequence[int]) -> list[tuple[int, int]]:
    """Return the edges along ``chains``; each chain lists the vertices of a path in order."""
    return [edge for chain in chains for edge in pairwise(chain)]


INCEPTION = Block(
    "Inception v3",
    11,
    # Two branches that end in a 1x3 and a 3x1 convolution each, a 1x1 branch, and a pooled one.
    _chains((0, 10), (1, 2, 10), (1, 3, 10), (4, 5, 6, 10), (5, 7, 10), (8, 9, 10)),
    "4.9e3",
    "3.8e6",
)

SQUEEZENET = Block(
    "SqueezeNet",
    6,
    # A fire module with a convolution around it: squeeze, two expansions, their concatenation.
    _chains((0, 1, 3, 5), (0, 2, 3), (4, 5)),
    "51",
    "1.3e2",
)

NASNET = Block(
    "NASNet",
    18,
    # The first cell after a reduction; a separable convolution is applied twice in a row.
    _chains(
        (0, 2), (1, 2, 17), (3, 17), (3, 4, 5, 17), (3, 6, 7, 17), (2, 8, 9, 17), (2, 10, 11, 17),
        (3, 12, 17), (2, 13, 17), (2, 14, 17), (3, 15, 16, 17),
    ),
    "3.1e5",
    "7.2e12",
)  # fmt: skip

_DRAWN: dict[int, tuple[int, ...]] = {
    0: (9, 11, 14, 17, 31), 1: (2, 3, 31), 2: (4, 11, 12, 14, 30), 3: (4, 25), 4: (9, 20, 29),
    5: (6, 27), 6: (7, 21, 27), 7: (30, 31), 8: (10, 25), 9: (10, 14), 10: (11, 16, 22, 28),
    11: (16, 24), 12: (13, 14, 15, 16), 13: (14, 22, 26), 14: (23,), 15: (29,), 16: (21,),
    17: (26,), 18: (19, 20), 19: (22, 27), 20: (22,), 22: (25, 30), 23: (27,), 24: (25, 26),
    25: (28,), 26: (28,), 27: (28, 29), 28: (29,), 29: (30, 31), 30: (31,),
}  # fmt: skip
"""The nodes that read each node's result, in a random graph WS(32, 4, 0.75).

The graph has the paper's counts. The authors drew three graphs without recording a seed; this
is the second graph in their released code.
"""

RANDWIRE = Block(
    "RandWire",
    33,
    [
        *((node, reader) for node, readers in _DRAWN.items() for reader in readers),
        (21, 32),
        (31, 32),
    ],
    "1.2e6",
    "9.2e22",
)

BLOCKS = (INCEPTION, RANDWIRE, NASNET, SQUEEZENET)
"""The rows of IOS's table 1."""

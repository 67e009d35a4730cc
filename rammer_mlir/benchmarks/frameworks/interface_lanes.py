"""Times a network that several interfaces compile, each in processes of its own."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rammer_mlir.benchmarks.contender_process import Lane
from rammer_mlir.benchmarks.contenders.protocol import Open
from rammer_mlir.support.interleaved_timing import take_rounds

COPIES = 5
"""Default number of processes of each interface.

The speed of a process depends on where its data are in memory, which differs between processes.
"""

SECONDS = 60.0
"""Seconds after which no more rounds begin for a network."""

TIMEOUT = 1200.0
"""Seconds in which a process must compile its network."""


class InterfaceLanes(ExitStack):
    """The processes of a network, several for each interface; only one runs at a time."""

    def __init__(
        self,
        name: str,
        openings: Mapping[str, Open],
        model: Path,
        threads: int,
        copies: int = COPIES,
    ) -> None:
        """Start the processes, and compile the network in each.

        Args:
            name: the network.
            openings: functions that compile the network, by interface.
            model: the network as an ONNX file.
            threads: number of threads of each process.
            copies: number of processes of each interface.

        Raises:
            TargetError: if a process cannot compile the network, or takes too long.
        """
        super().__init__()
        self._lanes: dict[tuple[str, int], Lane] = {}
        with ExitStack() as stack:
            for copy in range(copies):
                for way, opening in openings.items():
                    lane = Lane(f"{name} by {way}", opening, model, threads, {})
                    self._lanes[way, copy] = stack.enter_context(lane)
                    lane.open(TIMEOUT)
            self.push(stack.pop_all())

    def each(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Return the results of ``Lane.call(function)`` in one process of each interface."""
        return {way: lane.call(function) for (way, copy), lane in self._lanes.items() if not copy}

    def rounds(self, turn: Callable[[str, Lane], list[float]]) -> dict[str, list[float]]:
        """Time the interfaces in rounds; return the seconds in each round, by interface.

        ``turn`` gets an interface and one of its processes, and returns the seconds of some runs.
        """
        turns = {key: partial(turn, key[0], lane) for key, lane in self._lanes.items()}
        return joined_copies(take_rounds(turns, SECONDS))


def joined_copies(
    rounds: Mapping[tuple[str, int], Sequence[Sequence[float]]],
) -> dict[str, list[float]]:
    """Return the median seconds of each round, over the runs of all processes, by interface.

    ``rounds`` has the seconds of each run, by interface and index of the process, then by round.
    """
    return {
        way: [
            statistics.median(run for runs in of_copies for run in runs)
            for of_copies in zip(*(rounds[key] for key in rounds if key[0] == way), strict=True)
        ]
        for way in dict.fromkeys(way for way, _ in rounds)
    }


def ratio(times: Sequence[float], base: Sequence[float], without: float = 0.0) -> float:
    """Return the median over rounds of ``times`` less ``without``, divided by ``base``.

    All arguments are in seconds; ``times`` and ``base`` have an element for each round.
    """
    return statistics.median(
        (one - without) / other for one, other in zip(times, base, strict=True)
    )

"""Times a network that is compiled by several interfaces, each in separate processes.

An interface is a way to compile a network of PyTorch or JAX, such as ``torch.compile``, or the
import of the same network from ONNX.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from rammer_mlir.benchmarks.contender_process import Lane
from rammer_mlir.benchmarks.contenders.protocol import Contender, Open
from rammer_mlir.support.interleaved_timing import take_rounds

COPIES = 5
"""Default number of processes of each interface.

The speed of a process depends on where its data are in memory, which differs between processes.
"""

SECONDS = 60.0
"""Seconds after which no more rounds begin for a network."""

TIMEOUT = 1200.0
"""Seconds in which a process must compile its network."""


class Interface(Contender, Protocol):
    """A network compiled by an interface, such as ``torch.compile``, with the arguments of runs."""

    def seconds(self) -> list[Any]:
        """Time some runs after an untimed run; return an element for each timed run.

        An element is the seconds of the run. For an interface of PyTorch, an element is a pair: the
        seconds of the run, and the part of these seconds that is spent outside of the back end.
        """
        ...

    def error(self) -> float:
        """Return the largest relative error of the results against those of the framework itself.

        The framework is PyTorch or JAX.
        """
        ...


@dataclass(frozen=True)
class Opening:
    """Compiles a network by an interface, in the child process that runs the network.

    Attributes:
        kind: the class of the compiled network, pickled by its name; called with the attributes
            ``way``, ``name`` and ``small``, the path of the ONNX file and the number of threads.
        way: the name of the interface, such as ``onnx`` or ``jax.jit``.
        name: the name of the network.
        small: whether to take the network's reduced sizes.
    """

    kind: Callable[..., Interface]
    way: str
    name: str
    small: bool

    def __call__(self, model: Path, threads: int) -> Contender:
        """Return the compiled network; the ONNX file ``model`` contains the same network."""
        return self.kind(self.way, self.name, small=self.small, model=model, threads=threads)


def seconds(contender: Contender, _: Mapping[str, Any]) -> list[Any]:
    """Return the result of ``Interface.seconds``; called in the child process of a network."""
    return cast(Interface, contender).seconds()


def error(contender: Contender, _: Mapping[str, Any]) -> float:
    """Return the result of ``Interface.error``; called in the child process of a network."""
    return cast(Interface, contender).error()


class InterfaceLanes(ExitStack):
    """Child processes that each run a network compiled by one interface, such as ``torch.compile``.

    There are several processes for each interface; only one process runs at a time.
    """

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
        """Call ``function`` in one process of each interface; return the results by interface.

        ``Lane.call`` passes the compiled network to ``function``, and an empty dictionary instead
        of inputs, because the network has its own inputs.
        """
        return {way: lane.call(function) for (way, copy), lane in self._lanes.items() if not copy}

    def rounds(self, turn: Callable[[str, Lane], list[float]]) -> dict[str, list[float]]:
        """Time the interfaces in rounds; return a run's median seconds in each round, by interface.

        ``turn`` gets the name of an interface and one of its processes, runs the network there a
        few times, and returns the seconds of each run.
        """
        turns = {key: partial(turn, key[0], lane) for key, lane in self._lanes.items()}
        return joined_copies(take_rounds(turns, SECONDS))


def print_lines(description: str | None, names: Sequence[str], measure: Callable[..., str]) -> int:
    """Run a benchmark of interfaces as a tool: print a line for each network; return 0.

    Args:
        description: the text of ``--help``.
        names: the networks; the command line may choose some.
        measure: returns a network's line; called with its name, the number of threads, and whether
            to take reduced sizes (``small``).
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(names), metavar="NAME")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--small", action="store_true", help="reduced sizes")
    given = parser.parse_args()
    for name in given.names:
        if name not in names:
            parser.error(f"unknown network {name!r}; choose from {', '.join(names)}")
    for name in given.names:
        print(measure(name, given.threads, small=given.small), flush=True)
    return 0


def joined_copies(
    rounds: Mapping[tuple[str, int], Sequence[Sequence[float]]],
) -> dict[str, list[float]]:
    """Return, for each interface by name, the median seconds of a run in each round.

    The median of a round is over the runs in all processes of the interface. A key of ``rounds`` is
    an interface and the index of one of its processes; the value has a list for each round, with
    the seconds of each run.
    """
    return {
        way: [
            statistics.median(run for runs in of_copies for run in runs)
            for of_copies in zip(*(rounds[key] for key in rounds if key[0] == way), strict=True)
        ]
        for way in dict.fromkeys(way for way, _ in rounds)
    }


def ratio(times: Sequence[float], base: Sequence[float], without: float = 0.0) -> float:
    """Return the median over rounds of an interface's time divided by another interface's time.

    Args:
        times: the seconds of the interface in each round.
        base: the seconds of the other interface in each round.
        without: seconds that are subtracted from each of ``times`` first.
    """
    return statistics.median(
        (one - without) / other for one, other in zip(times, base, strict=True)
    )

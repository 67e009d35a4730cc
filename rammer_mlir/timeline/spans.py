"""Represents a run as data: each vEU's activities, called spans, with their start and end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["rtask", "barrier", "launch"]


@dataclass(frozen=True)
class Span:
    """An uninterrupted activity of a vEU: rTasks of one rOperator, a wait, or the launch.

    Attributes:
        veu: the vEU.
        start, end: seconds from the beginning of the run.
        kind: ``rtask`` for rTasks, ``barrier`` for a wait, ``launch`` for the launch.
        name: name of the rOperator in the model; ``kind`` for a wait or a launch.
        kernel: the name of the rKernel; empty for a wait or a launch.
        first, count: rTasks ``first .. first + count - 1`` of the rOperator; ``count`` is 0 for a
            wait or a launch.
        waits: for a wait or a launch, pairs (vEU, steps). The wait ends when each of these vEUs has
            completed ``steps`` rTasks, counted over all rPrograms of the run.
        module: the external module that implements the rKernel; empty for the compiler's own code.
        is_exclusive: whether the span is an rTask that uses the whole device, while the other vEUs
            wait.
    """

    veu: int
    start: float
    end: float
    kind: Kind
    name: str
    kernel: str = ""
    first: int = 0
    count: int = 0
    waits: tuple[tuple[int, int], ...] = ()
    module: str = ""
    is_exclusive: bool = False

    @property
    def seconds(self) -> float:
        """The duration of the span in seconds."""
        return self.end - self.start


@dataclass(frozen=True)
class Shares:
    """The seconds of a run, summed over vEUs, by the activity of the vEU.

    Attributes:
        working: seconds in which vEUs run rTasks.
        waiting: seconds in barriers and launches.
        idle: all other seconds, for example after a vEU's last rTask.
    """

    working: float
    waiting: float
    idle: float


@dataclass(frozen=True)
class Timeline:
    """The activities of all vEUs in a run.

    Attributes:
        title: heading of the timeline.
        veus: each vEU's spans, in order.
    """

    title: str
    veus: tuple[tuple[Span, ...], ...]

    @property
    def spans(self) -> Iterable[Span]:
        """The spans of all vEUs, ordered by vEU."""
        return (span for veu in self.veus for span in veu)

    @cached_property
    def seconds(self) -> float:
        """The end of the last span, in seconds."""
        return max((span.end for span in self.spans), default=0.0)

    @property
    def shares(self) -> Shares:
        """The seconds of each kind of activity, summed over vEUs; launches count as waiting."""
        working = sum(span.seconds for span in self.spans if span.kind == "rtask")
        waiting = sum(span.seconds for span in self.spans if span.kind != "rtask")
        return Shares(working, waiting, len(self.veus) * self.seconds - working - waiting)

"""A run as data: what each vEU did when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["rtask", "barrier", "launch"]


@dataclass(frozen=True)
class Span:
    """What a vEU did without a break: rTasks of one rOperator, a wait, or the launch.

    Attributes:
        veu: the vEU.
        start, end: seconds from the beginning of the run.
        name: the rOperator, as the model names it.
        kernel: the rKernel.
        first, count: rTasks ``first .. first + count - 1`` of the rOperator; none if it waits.
        waits: pairs of a vEU and the number of rTasks that it has to have completed, counted over
            all rPrograms of the run.
        module: the code from elsewhere that the rKernel is; empty for the compiler's own.
        is_exclusive: whether the rTask uses the whole device, while the other vEUs wait.
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
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True)
class Shares:
    """Seconds, summed over vEUs, between the beginning of a run and its end."""

    working: float
    waiting: float
    idle: float


@dataclass(frozen=True)
class Timeline:
    """One run.

    Attributes:
        title: what people read above it.
        veus: each vEU's spans, in order.
    """

    title: str
    veus: tuple[tuple[Span, ...], ...]

    @property
    def spans(self) -> Iterable[Span]:
        """All spans, vEU after vEU."""
        return (span for veu in self.veus for span in veu)

    @cached_property
    def seconds(self) -> float:
        """When the last span ended."""
        return max((span.end for span in self.spans), default=0.0)

    @property
    def shares(self) -> Shares:
        """What the vEUs spent their time on; launches count as waiting."""
        working = sum(span.seconds for span in self.spans if span.kind == "rtask")
        waiting = sum(span.seconds for span in self.spans if span.kind != "rtask")
        return Shares(working, waiting, len(self.veus) * self.seconds - working - waiting)

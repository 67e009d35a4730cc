"""Defines finished rPrograms: ``prog[vEU][order]`` with barrier-rTasks (RAMMER section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """rTasks ``first .. first + count - 1`` of operator ``operator``, in order on the same vEU."""

    operator: int
    first: int
    count: int


@dataclass(frozen=True)
class Barrier:
    """A barrier-rTask: it waits for rTasks of other vEUs.

    Each element of ``waits`` is a pair (vEU, order): the barrier waits until vEU ``vEU`` has
    completed its rTask number ``order``. Orders count the rTasks of a vEU from zero, without
    barriers.
    """

    waits: tuple[tuple[int, int], ...]


Item = Run | Barrier


@dataclass(frozen=True)
class RProgram:
    """The runs and barriers that each vEU executes, in order, in one launch."""

    num_veus: int
    veus: tuple[tuple[Item, ...], ...]

    @property
    def num_rtasks(self) -> int:
        """The number of rTasks of all vEUs."""
        return sum(item.count for veu in self.veus for item in veu if isinstance(item, Run))

    @property
    def num_waits(self) -> int:
        """The number of waits of all barriers; a wait is a pair (vEU, order)."""
        return sum(
            len(item.waits) for veu in self.veus for item in veu if isinstance(item, Barrier)
        )


@dataclass(frozen=True)
class Plan:
    """A complete schedule: rPrograms that run in order, and the chosen rKernels.

    Attributes:
        programs: the rPrograms.
        kernels: for each operator, the index of its chosen candidate.
        predicted_seconds: time of the whole plan by the cost model; 0 if unknown.
        requested_waits: waits that the dependencies require, before redundant waits are dropped.
        notes: remarks of the policy on its search, a line each.
    """

    programs: tuple[RProgram, ...]
    kernels: tuple[int, ...]
    predicted_seconds: float = 0.0
    requested_waits: int = 0
    notes: tuple[str, ...] = ()

    @property
    def num_waits(self) -> int:
        """The number of waits of all barriers of the plan."""
        return sum(program.num_waits for program in self.programs)

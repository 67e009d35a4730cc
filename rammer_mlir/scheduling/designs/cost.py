"""Cost of an assignment on a machine, or a lower bound while some of its loops have no choice.

An assignment runs in waves of rTasks. With a choice for each loop, the cost is the predicted time.
With fewer choices, the bound is the largest of: compute time with all lanes busy, memory traffic at
full bandwidth, and the waves and steps that the choices so far imply. So an additional choice never
lowers the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from rammer_mlir.scheduling.designs.machine import Choice, Machine
from rammer_mlir.scheduling.designs.problem import Assignment, LoopKind, Problem, Traffic


class Part(NamedTuple):
    """A lower bound on the cost of one assignment: seconds, and number of waves of rTasks."""

    seconds: float
    waves: int


@dataclass
class _Shape:
    """Products over the loops with a choice: the number of rTasks, and iterations of one rTask.

    Attributes:
        blocks: the number of rTasks.
        row_lanes, row_steps: iterations of parallel loops across lanes, and in sequence.
        reduced_lanes, reduced_steps: iterations of reduction loops across lanes, and in sequence.
    """

    blocks: int = 1
    row_lanes: int = 1
    row_steps: int = 1
    reduced_lanes: int = 1
    reduced_steps: int = 1


@dataclass(frozen=True)
class AssignmentCost:
    """The cost of an assignment of a group on a machine."""

    problem: Problem
    assignment: Assignment
    machine: Machine

    def part(self, chosen: Mapping[int, Choice]) -> Part:
        """Return the cost of the assignment if all its loops have a choice, else a lower bound.

        ``chosen`` has the choice of each loop by number.
        """
        shape = self._shape(chosen)
        waves = -(-shape.blocks // self.machine.units)
        lanes = shape.row_lanes * shape.reduced_lanes
        steps = -(-lanes // self.machine.lanes) * shape.row_steps * shape.reduced_steps
        in_waves = waves * steps * self._step_seconds
        # Keep the bounds of partial designs to the end: without them, rounding could lower the sum.
        compute = max(self._busy_seconds, in_waves)
        memory = self._total_bytes(chosen) / self._bandwidth
        if len(chosen) == len(self.assignment.loops):
            compute = max(compute, in_waves + waves * self._meeting_seconds(shape))
            memory = max(memory, waves * self._task_memory_seconds(shape.blocks, chosen))
        return Part(max(compute, memory), waves)

    @property
    def _step_seconds(self) -> float:
        return self.assignment.operations * self.machine.step_seconds

    @cached_property
    def _busy_seconds(self) -> float:
        """The seconds of the computation if all lanes of all units are busy."""
        points = prod(self.problem.loops[loop].extent for loop in self.assignment.loops)
        return points / (self.machine.units * self.machine.lanes) * self._step_seconds

    @cached_property
    def _bandwidth(self) -> float:
        machine = self.machine
        return min(machine.total_bytes_per_second, machine.units * machine.bytes_per_second)

    def _shape(self, chosen: Mapping[int, Choice]) -> _Shape:
        shape = _Shape()
        for number, choice in chosen.items():
            loop = self.problem.loops[number]
            shape.blocks *= -(-loop.extent // choice.tile)
            by_lanes = choice.by_lanes and (loop.contiguous or not self.machine.is_vector)
            if loop.kind is LoopKind.REDUCTION:
                shape.reduced_lanes *= choice.tile if by_lanes else 1
                shape.reduced_steps *= 1 if by_lanes else choice.tile
            else:
                shape.row_lanes *= choice.tile if by_lanes else 1
                shape.row_steps *= 1 if by_lanes else choice.tile
        return shape

    def _meeting_seconds(self, shape: _Shape) -> float:
        """Return the seconds in which lanes combine their partial reductions, for one rTask."""
        if shape.reduced_lanes == 1:
            return 0.0
        lanes = shape.row_lanes * min(shape.reduced_lanes, self.machine.lanes)
        return shape.row_steps * -(-lanes // self.machine.lanes) * self.machine.meeting_seconds

    def _task_memory_seconds(self, blocks: int, chosen: Mapping[int, Choice]) -> float:
        """Return the seconds of an rTask's memory traffic if ``blocks`` rTasks share the bandwidth.

        ``chosen`` has the choice of each loop by number.
        """
        each = self.machine.total_bytes_per_second / min(blocks, self.machine.units)
        num_bytes = sum(_box_bytes(traffic, chosen) for traffic in self.assignment.traffic)
        return num_bytes / min(self.machine.bytes_per_second, each)

    def _total_bytes(self, chosen: Mapping[int, Choice]) -> float:
        """Return a lower bound on the bytes that all rTasks together move.

        A tensor that a loop does not index is moved again for each tile of that loop. ``chosen``
        has the choices of some loops by number.
        """
        total = 0
        for num_bytes, others in self._least_traffic:
            for number in others:
                if number in chosen:
                    num_bytes *= -(-self.problem.loops[number].extent // chosen[number].tile)
            total += num_bytes
        return total

    @cached_property
    def _least_traffic(self) -> list[tuple[int, tuple[int, ...]]]:
        """For each tensor, the minimum bytes moved, and the loops that do not index it."""
        return [self._least(traffic) for traffic in self.assignment.traffic]

    def _least(self, traffic: Traffic) -> tuple[int, tuple[int, ...]]:
        inside = {loop for span in traffic.spans for loop, _ in span.terms}
        others = tuple(loop for loop in self.assignment.loops if loop not in inside)
        return prod(self._elements(traffic)) * traffic.element_bytes, others

    def _elements(self, traffic: Traffic) -> Iterator[int]:
        """Yield a lower bound on the number of touched elements along each dimension of a tensor.

        A loop counts only in the first dimension that it indexes. Steps above 1 skip elements, so
        only as many elements as iterations are certain.
        """
        counted: set[int] = set()
        for span in traffic.spans:
            loops = [loop for loop, _ in span.terms if loop not in counted]
            yield max((span.constant, *(self.problem.loops[loop].extent for loop in loops)))
            counted.update(loops)


def _box_bytes(traffic: Traffic, chosen: Mapping[int, Choice]) -> int:
    """Return the bytes of a tensor that one rTask moves, with the choices ``chosen`` of loops."""
    num_bytes = traffic.element_bytes
    for span in traffic.spans:
        num_bytes *= span.constant + sum(f * (chosen[n].tile - 1) for n, f in span.terms)
    return num_bytes

"""Predicts or bounds the time of a loop nest whose loops are mapped to vEUs and lanes.

An assignment (a loop nest of a fused group) runs as rTasks; a wave is one rTask on each vEU. A
choice is the mapping of a loop. With a choice for each loop, the cost is the predicted time. With
choices for some loops only, the cost is a lower bound, the largest of three times:

- the compute time with all lanes busy;
- the memory traffic at full bandwidth;
- the time of the waves and sequential iterations that these choices imply.

An additional choice never lowers the bound.
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
    """The cost of an assignment (a loop nest of a fused group), or a lower bound on it.

    Attributes:
        seconds: time of computation and memory traffic, without the time to start rTasks.
        waves: the number of rTasks divided by the number of vEUs, rounded up.
    """

    seconds: float
    waves: int


@dataclass
class _Shape:
    """The number of rTasks and the iterations of each rTask, as products over the mapped loops.

    Attributes:
        blocks: the number of rTasks.
        row_lanes: an rTask's iterations of the parallel loops that are mapped to lanes.
        row_steps: an rTask's iterations of the parallel loops that run in sequence.
        reduced_lanes: an rTask's iterations of the reduction loops that are mapped to lanes.
        reduced_steps: an rTask's iterations of the reduction loops that run in sequence.
    """

    blocks: int = 1
    row_lanes: int = 1
    row_steps: int = 1
    reduced_lanes: int = 1
    reduced_steps: int = 1


@dataclass(frozen=True)
class AssignmentCost:
    """The predicted time of an assignment (a loop nest of a fused group) on a machine.

    Attributes:
        problem: the group of the assignment, which has the extents of the loops.
        assignment: the loop nest.
        machine: the counts of vEUs and lanes, their speeds and the memory bandwidths.
    """

    problem: Problem
    assignment: Assignment
    machine: Machine

    def part(self, chosen: Mapping[int, Choice]) -> Part:
        """Return the seconds and waves if all loops are mapped, else lower bounds on both.

        ``chosen`` has the mapping of each loop that is already mapped, by the loop's number.
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
            compute = max(compute, in_waves + waves * self._combining_seconds(shape))
            memory = max(memory, waves * self._task_memory_seconds(shape.blocks, chosen))
        return Part(max(compute, memory), waves)

    @property
    def _step_seconds(self) -> float:
        return self.assignment.operations * self.machine.step_seconds

    @cached_property
    def _busy_seconds(self) -> float:
        """The seconds of the assignment's operations if all lanes of all vEUs are always busy."""
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

    def _combining_seconds(self, shape: _Shape) -> float:
        """Return the seconds that an rTask needs to combine the partial reductions of its lanes."""
        if shape.reduced_lanes == 1:
            return 0.0
        lanes = shape.row_lanes * min(shape.reduced_lanes, self.machine.lanes)
        return shape.row_steps * -(-lanes // self.machine.lanes) * self.machine.meeting_seconds

    def _task_memory_seconds(self, blocks: int, chosen: Mapping[int, Choice]) -> float:
        """Return the seconds of an rTask's memory traffic if ``blocks`` rTasks share the bandwidth.

        ``chosen`` has the mapping of each loop, by the loop's number.
        """
        each = self.machine.total_bytes_per_second / min(blocks, self.machine.units)
        num_bytes = sum(_box_bytes(traffic, chosen) for traffic in self.assignment.traffic)
        return num_bytes / min(self.machine.bytes_per_second, each)

    def _total_bytes(self, chosen: Mapping[int, Choice]) -> float:
        """Return a lower bound on the bytes that all rTasks together read and write in memory.

        A tensor that a loop does not index is moved again for each tile of that loop. ``chosen``
        has the mappings of some loops, by the loops' numbers.
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
        """For each tensor in memory, the bytes of one transfer and the loops that do not index it.

        A transfer moves each element that the assignment touches once; the bytes are a lower bound.
        The loops are those of the assignment, by number.
        """
        return [self._least(traffic) for traffic in self.assignment.traffic]

    def _least(self, traffic: Traffic) -> tuple[int, tuple[int, ...]]:
        inside = {loop for span in traffic.spans for loop, _ in span.terms}
        others = tuple(loop for loop in self.assignment.loops if loop not in inside)
        return prod(self._elements(traffic)) * traffic.element_bytes, others

    def _elements(self, traffic: Traffic) -> Iterator[int]:
        """Yield for each dimension of a tensor a lower bound on the count of touched elements.

        The index into a dimension is a sum of factor * loop index. Each iteration of a loop changes
        the index, so the loop touches at least as many elements as it has iterations. A loop that
        indexes several dimensions counts only in the first of these dimensions.
        """
        counted: set[int] = set()
        for span in traffic.spans:
            loops = [loop for loop, _ in span.terms if loop not in counted]
            yield max((span.constant, *(self.problem.loops[loop].extent for loop in loops)))
            counted.update(loops)


def _box_bytes(traffic: Traffic, chosen: Mapping[int, Choice]) -> int:
    """Return the bytes of a tensor that an rTask reads or writes.

    ``chosen`` has the mapping of each loop, by the loop's number.
    """
    num_bytes = traffic.element_bytes
    for span in traffic.spans:
        num_bytes *= span.constant + sum(f * (chosen[n].tile - 1) for n, f in span.terms)
    return num_bytes

"""Plans graphs in which some rTasks need the whole device for themselves (exclusive rTasks).

A policy places rTasks concurrently, so the graph that a policy plans has no exclusive rTask. The
graph is cut at exclusive operators, and the policy plans each set of operators between two cuts.
Each exclusive rTask gets a separate rProgram, which begins when all earlier rPrograms have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rammer_mlir.scheduling.costs import runtime
from rammer_mlir.scheduling.dependencies import Dependencies
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel, ROperator, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram, Run
from rammer_mlir.scheduling.simulator import simulate

Schedule = Callable[[TaskGraph], Plan]
"""A function that returns a policy's plan for a part of a graph."""


@dataclass(frozen=True)
class Segment:
    """A part of a graph: operators that a policy schedules together, then exclusive operators.

    ``together`` and ``exclusive`` are the indices of these operators. The rTask of an exclusive
    operator runs alone on the device.
    """

    together: tuple[int, ...]
    exclusive: tuple[int, ...]


def has_exclusive(graph: TaskGraph) -> bool:
    """Whether any operator has an exclusive candidate: an rKernel whose rTask must run alone."""
    return any(kernel.is_exclusive for o in graph.operators for kernel in o.kernels)


def schedule_around(graph: TaskGraph, device: Device, schedule: Schedule) -> Plan:
    """Return a plan in which each exclusive rTask is alone in an rProgram.

    Args:
        graph: the graph. If an operator has exclusive and other candidates, only the faster of
            these two kinds is considered.
        device: the device that the plan is for.
        schedule: plans a graph by a policy. It is called for the operators between each two cuts at
            exclusive operators.

    Raises:
        ScheduleError: if ``schedule`` raises it.
    """
    decided = replace(graph, operators=tuple(_decided(o, device) for o in graph.operators))
    programs: list[RProgram] = []
    kernels = [0] * len(decided.operators)
    requested = 0
    for segment in segments(decided):
        part = tuple(decided.operators[number] for number in segment.together)
        if part:
            plan = schedule(replace(decided, operators=part))
            programs.extend(_renumbered(program, segment.together) for program in plan.programs)
            requested += plan.requested_waits
            for number, kernel in zip(segment.together, plan.kernels, strict=True):
                kernels[number] = kernel
        programs.extend(_alone(number, device.num_veus) for number in segment.exclusive)
    whole = Plan(tuple(programs), _original(graph, decided, kernels), requested_waits=requested)
    return replace(whole, predicted_seconds=simulate(graph, whole, device).seconds)


def segments(graph: TaskGraph) -> list[Segment]:
    """Cut a graph into the fewest segments; return them in the order of execution.

    The candidates of each operator must be either all exclusive or all not exclusive. The depth of
    an operator is the largest count of exclusive operators on any path of dependencies that leads
    to the operator, without the operator itself. Operators of equal depth are in the same segment;
    segments are ordered by depth.
    """
    exclusive = [operator.kernels[0].is_exclusive for operator in graph.operators]
    dependencies = Dependencies(graph)
    depths: list[int] = []
    for number in range(len(exclusive)):
        sources = dependencies.producers(number)
        depths.append(max((depths[source] + exclusive[source] for source in sources), default=0))
    numbers = sorted(range(len(depths)), key=lambda number: depths[number])
    return [
        Segment(
            tuple(number for number in members if not exclusive[number]),
            tuple(number for number in members if exclusive[number]),
        )
        for members in (tuple(found) for _, found in groupby(numbers, lambda n: depths[n]))
    ]


def _decided(operator: ROperator, device: Device) -> ROperator:
    """Return the operator with candidate rKernels of one kind only: exclusive or not exclusive.

    The time of an exclusive candidate includes two additional launches: of its own rProgram, and of
    the next rProgram. If the fastest candidate is exclusive, only this candidate is kept; otherwise
    all candidates that are not exclusive are kept.
    """
    exclusive = [kernel for kernel in operator.kernels if kernel.is_exclusive]
    others = tuple(kernel for kernel in operator.kernels if not kernel.is_exclusive)
    if not exclusive:
        return operator

    def seconds(kernel: RKernel) -> float:
        # A separate rProgram costs two more launches: its own, and that of the rProgram after it.
        return runtime(kernel, device) + 2 * device.launch_seconds * kernel.is_exclusive

    best = min((*exclusive, *others), key=seconds)
    chosen = (min(exclusive, key=seconds),) if best.is_exclusive else others
    return replace(operator, kernels=chosen)


def _alone(operator: int, num_veus: int) -> RProgram:
    """Return an rProgram in which the first vEU runs the only rTask of an operator.

    The first vEU is the caller's thread.
    """
    idle: tuple[Item, ...] = ()
    return RProgram(num_veus, ((Run(operator, 0, 1),), *[idle] * (num_veus - 1)))


def _renumbered(program: RProgram, numbers: Sequence[int]) -> RProgram:
    veus = tuple(
        tuple(i if isinstance(i, Barrier) else replace(i, operator=numbers[i.operator]) for i in v)
        for v in program.veus
    )
    return replace(program, veus=veus)


def _original(graph: TaskGraph, decided: TaskGraph, kernels: Sequence[int]) -> tuple[int, ...]:
    """Return, for each operator, the index of its chosen rKernel among its candidates in ``graph``.

    ``decided`` is a copy of the graph in which operators have fewer candidates, and ``kernels`` has
    the index of each chosen rKernel among the candidates in ``decided``.
    """
    chosen = (o.kernels[k] for o, k in zip(decided.operators, kernels, strict=True))
    return tuple(
        operator.kernels.index(kernel)
        for operator, kernel in zip(graph.operators, chosen, strict=True)
    )

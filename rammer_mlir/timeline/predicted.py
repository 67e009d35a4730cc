"""Makes timelines from the simulator's predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Barrier, Plan
from rammer_mlir.scheduling.replay import simulate_repeated
from rammer_mlir.scheduling.simulator import Event
from rammer_mlir.timeline.spans import Span, Timeline


def predicted_timeline(graph: TaskGraph, plan: Plan, device: Device, title: str) -> Timeline:
    """Return the timeline of a simulated run of a plan that follows earlier runs of this plan.

    If vEUs have caches, the time of an rTask depends on the data that earlier rTasks, including
    those of the previous run, left in the caches. ``title`` is the timeline's heading.

    Raises:
        ScheduleError: if a wait never ends (deadlock).
    """
    num_veus = max((program.num_veus for program in plan.programs), default=0)
    veus: list[list[Span]] = [[] for _ in range(num_veus)]
    done = [0] * num_veus
    begin = 0.0
    simulation = simulate_repeated(graph, plan, device)
    for _, events in groupby(simulation.events, lambda event: event.program):
        # A launch waits for the whole preceding rProgram.
        waits = tuple((veu, steps) for veu, steps in enumerate(done) if steps)
        program = tuple(events)
        start = min(event.start for event in program)
        for veu in {event.veu for event in program}:
            veus[veu].append(Span(veu, begin, start, "launch", "launch", waits=waits))
        for span in _spans(graph, plan, program, tuple(done)):
            veus[span.veu].append(span)
            done[span.veu] += span.count
        begin = max(event.end for event in program)
    return Timeline(title, tuple(map(tuple, veus)))


def _spans(
    graph: TaskGraph, plan: Plan, events: Iterable[Event], before: tuple[int, ...]
) -> Iterator[Span]:
    for event in events:
        veu, start, end, item = event.veu, event.start, event.end, event.item
        if isinstance(item, Barrier):
            waits = tuple((other, before[other] + order + 1) for other, order in item.waits)
            yield Span(veu, start, end, "barrier", "barrier", waits=waits)
        else:
            operator = graph.operators[item.operator]
            kernel = operator.kernels[plan.kernels[item.operator]]
            yield Span(
                veu, start, end, "rtask", operator.name, kernel.name, item.first, item.count,
                module=kernel.module, is_exclusive=kernel.is_exclusive,
            )  # fmt: skip

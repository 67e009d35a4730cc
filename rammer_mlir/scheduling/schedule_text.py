"""Prints a plan as a table in plain text: each vEU's runs and barriers with their times."""

from __future__ import annotations

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, Plan
from rammer_mlir.scheduling.simulator import Event, simulate

_HEAD = ("vEU", "order", "start us", "end us", "what", "rTasks", "rKernel")


def schedule_table(graph: TaskGraph, plan: Plan, device: Device) -> str:
    """Return a text with a table for each rProgram of a plan, with predicted times in microseconds.

    The column ``order`` has the position of each rTask among the rTasks of its vEU, from zero. The
    barriers in the table refer to rTasks by vEU and order. A barrier itself has no order.

    Raises:
        ScheduleError: if a wait blocks forever.
    """
    simulation = simulate(graph, plan, device)
    parts: list[str] = []
    for number, program in enumerate(plan.programs):
        barriers = sum(isinstance(item, Barrier) for veu in program.veus for item in veu)
        events = [event for event in simulation.events if event.program == number]
        parts.append(
            f"rProgram {number} on '{device.name}': {program.num_veus} vEUs, "
            f"{program.num_rtasks} rTasks, {barriers} barriers with {program.num_waits} waits, "
            f"predicted end {max((e.end for e in events), default=0.0) * 1e6:.3f} us"
        )
        parts.extend(_lines(graph, plan, events))
    return "\n".join(parts)


def _lines(graph: TaskGraph, plan: Plan, events: list[Event]) -> list[str]:
    rows: list[tuple[str, ...]] = [_HEAD]
    done: dict[int, int] = {}
    # Events come in execution order; a table lists them vEU by vEU.
    for event in sorted(events, key=lambda event: event.veu):
        order = done.get(event.veu, 0)
        times = f"{event.start * 1e6:.3f}", f"{event.end * 1e6:.3f}"
        label, *what = _words(graph, plan, event.item, order)
        rows.append((str(event.veu), label, *times, *what))
        done[event.veu] = order + (0 if isinstance(event.item, Barrier) else event.item.count)
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    right = (0, 1, 2, 3)
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _words(graph: TaskGraph, plan: Plan, item: Item, order: int) -> tuple[str, str, str, str]:
    if isinstance(item, Barrier):
        waits = ", ".join(f"vEU {veu} order {awaited}" for veu, awaited in item.waits)
        return "-", f"barrier: {waits}", "", ""
    operator = graph.operators[item.operator]
    kernel = operator.kernels[plan.kernels[item.operator]].name
    return _range(order, item.count), operator.name, _range(item.first, item.count), f"@{kernel}"


def _range(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"

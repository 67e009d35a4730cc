"""Calls a policy, and rejects a malformed plan before other code reads it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rammer_mlir.errors import RammerError, ScheduleError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.exclusive import has_exclusive, schedule_around
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.policy import Policy
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.support.failures import FAILURES, failure_text


class PolicyError(ScheduleError):
    """An error of a policy, whose message names the policy."""


def ask(policy: Policy, graph: TaskGraph, device: Device) -> Plan:
    """Return the policy's plan for a graph, after a check that the plan is well-formed.

    The verifier checks later whether the plan is correct. A graph may have exclusive rTasks, which
    need the whole device (``RKernel.is_exclusive``). Each exclusive rTask gets a separate rProgram,
    and the policy plans the operators between exclusive rTasks.

    Raises:
        ScheduleError: if the policy fails, or does not return a plan of this graph and device.
    """
    if has_exclusive(graph):
        return schedule_around(graph, device, lambda part: checked_plan(policy, part, device))
    return checked_plan(policy, graph, device)


def checked_plan(policy: Policy, graph: TaskGraph, device: Device) -> Plan:
    """Return the policy's plan for a graph without exclusive rTasks, if the plan is well-formed.

    Raises:
        RammerError: an error that the policy raises.
        PolicyError: if the policy raises another exception, or does not return a plan of this
            graph and device.
    """
    try:
        plan = policy.schedule(graph, device)
    except RammerError:
        raise
    except FAILURES as error:
        raise PolicyError(
            f"policy '{policy.name}' failed with {failure_text(error)}; mend it, or choose another "
            "one"
        ) from error
    wrong = _wrong_plan(plan, graph, device)
    if wrong:
        raise PolicyError(f"policy '{policy.name}': {wrong}")
    return plan


def _wrong_plan(plan: object, graph: TaskGraph, device: Device) -> str:
    if not isinstance(plan, Plan):
        return f"expected a Plan, found {type(plan).__name__}"
    choices = [len(operator.kernels) for operator in graph.operators]
    if not isinstance(plan.kernels, Sequence) or len(plan.kernels) != len(choices):  # pyright: ignore[reportUnnecessaryIsInstance]
        return f"expected an rKernel for each of {len(choices)} operators, found {plan.kernels!r}"
    for number, (kernel, count) in enumerate(zip(plan.kernels, choices, strict=True)):
        if not _is_in(kernel, count):
            return (
                f"expected a number below {count} as rKernel of operator "
                f"'{graph.operators[number].name}', found {kernel!r}"
            )
    if not _is_time(plan.predicted_seconds):
        return (
            f"expected a finite time of at least 0 as prediction, found {plan.predicted_seconds!r}"
        )
    if not _is_in(plan.requested_waits, 1 << 63):
        return f"expected a number of at least 0 as requested waits, found {plan.requested_waits!r}"
    wrong_notes = _wrong_notes(plan.notes)
    if wrong_notes:
        return wrong_notes
    if graph.operators and not plan.programs:
        return "expected at least one rProgram, found none"
    wrong = (_wrong_program(program, graph, plan, device) for program in plan.programs)
    return next((message for message in wrong if message), "")


def _wrong_notes(notes: object) -> str:
    if not isinstance(notes, Sequence) or isinstance(notes, str):
        return f"expected a tuple of texts as notes, found {notes!r}"
    for note in notes:  # pyright: ignore[reportUnknownVariableType]
        # Each note is a line of a report and an attribute in UTF-8.
        if not isinstance(note, str) or not note.isprintable():
            return f"expected printable texts without line breaks as notes, found {note!r}"
    return ""


def _wrong_program(program: object, graph: TaskGraph, plan: Plan, device: Device) -> str:
    if not isinstance(program, RProgram) or len(program.veus) != program.num_veus:
        return f"expected rPrograms with a list for each vEU, found {type(program).__name__}"
    if program.num_veus > device.num_veus:
        return f"expected at most {device.num_veus} vEUs, found {program.num_veus}"
    lengths = [sum(i.count for i in veu if isinstance(i, Run)) for veu in program.veus]
    for veu in program.veus:
        for item in veu:
            wrong = _wrong_item(item, lengths, graph, plan)
            if wrong:
                return wrong
    return ""


def _wrong_item(item: object, lengths: Sequence[int], graph: TaskGraph, plan: Plan) -> str:
    """Return a message about a malformed ``Run`` or ``Barrier``, empty if ``item`` is well-formed.

    ``lengths`` has the count of rTasks of each vEU in the rProgram that contains ``item``.
    """
    if isinstance(item, Barrier):
        for veu, order in item.waits:
            if not _is_in(veu, len(lengths)) or not _is_in(order, lengths[veu]):
                return f"expected waits for rTasks that exist, found {(veu, order)!r}"
        return ""
    if not isinstance(item, Run):
        return f"expected Run and Barrier as items, found {type(item).__name__}"
    if not _is_in(item.operator, len(graph.operators)):
        return f"expected an operator below {len(graph.operators)}, found {item.operator!r}"
    total = graph.operators[item.operator].kernels[plan.kernels[item.operator]].num_rtasks
    last = item.first + item.count - 1
    if item.count < 1 or not _is_in(item.first, total) or not _is_in(last, total):
        name = graph.operators[item.operator].name
        return f"expected rTasks of '{name}' from 0 to {total - 1}, found {item.first} to {last}"
    return ""


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= sys.float_info.max


def _is_in(value: object, count: int) -> bool:
    return isinstance(value, int) and 0 <= value < count

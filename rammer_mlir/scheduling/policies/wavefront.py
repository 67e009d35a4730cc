"""The `wavefront` policy: RAMMER's Algorithm 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.scheduling.assignment import earliest
from rammer_mlir.scheduling.builder import Context, ProgramBuilder, finish_plan
from rammer_mlir.scheduling.costs import fastest, most_efficient, rtask_seconds
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan

Wave = tuple[int, ...]
"""Operators whose producers all lie in earlier waves."""


@dataclass(frozen=True)
class Wavefront:
    """Schedule wave after wave of a breadth-first search, each rTask where it can start first.

    A wave joins the current rProgram unless two rProgram launches are predicted to be faster.
    """

    name: ClassVar[str] = "wavefront"

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the rPrograms (Algorithm 1, ``Schedule``)."""
        context = Context(graph, device)
        finished: list[ProgramBuilder] = []
        current = ProgramBuilder(context)
        for wave in waves(context):
            before = current.seconds()
            mark = current.mark()
            schedule_wave(wave, current, context)
            together = current.seconds()
            chosen = [context.kernels[number] for number in wave]
            alone = ProgramBuilder(context)
            schedule_wave(wave, alone, context)
            if before == 0.0 or together <= before + alone.seconds():
                for number, kernel in zip(wave, chosen, strict=True):
                    context.kernels[number] = kernel
            else:
                current.reset(mark)
                finished.append(current)
                current = alone
        programs, seconds, requested = finish_plan([*finished, current])
        return Plan(programs, tuple(context.kernels), seconds, requested)


def waves(context: Context) -> list[Wave]:
    """Return the operators by their depth in the graph, each wave in the graph's order."""
    depths: list[int] = []
    for number in range(len(context.graph.operators)):
        producers = context.dependencies.producers(number)
        depths.append(1 + max((depths[producer] for producer in producers), default=-1))
    found: list[list[int]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for number, depth in enumerate(depths):
        found[depth].append(number)
    return [tuple(wave) for wave in found]


def schedule_wave(wave: Wave, program: ProgramBuilder, context: Context) -> None:
    """Append a wave to a program with the rKernels that suit it (``ScheduleWave``).

    The fastest rKernels are taken if all their rTasks together do not fill the device; otherwise
    the most efficient ones, if the program is then predicted to be faster (``SelectRKernels``).
    """
    operators, device = context.graph.operators, context.device
    fast = [fastest(operators[number].kernels, device) for number in wave]
    thrifty = [most_efficient(operators[number].kernels, device) for number in wave]
    total = sum(
        operators[number].kernels[kernel].num_rtasks
        for number, kernel in zip(wave, fast, strict=True)
    )
    if total <= device.num_veus or fast == thrifty:
        _append_wave(wave, fast, program, context)
        return
    mark = program.mark()
    _append_wave(wave, thrifty, program, context)
    thrifty_seconds = program.seconds()
    program.reset(mark)
    _append_wave(wave, fast, program, context)
    if thrifty_seconds < program.seconds():
        program.reset(mark)
        _append_wave(wave, thrifty, program, context)


def _append_wave(
    wave: Wave, kernels: Sequence[int], program: ProgramBuilder, context: Context
) -> None:
    for number, kernel in zip(wave, kernels, strict=True):
        context.kernels[number] = kernel
        needs = program.needs(number)
        seconds = rtask_seconds(context.graph.operators[number].kernels[kernel], context.device)
        barrier = context.device.barrier_seconds
        veus = earliest(needs, program.available, seconds, barrier)
        program.append(number, veus, needs)

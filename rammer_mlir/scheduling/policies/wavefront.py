"""The `wavefront` policy: RAMMER's Algorithm 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.affinity import plans_by_affinity
from rammer_mlir.scheduling.assignment import earliest, earliest_by_rtask
from rammer_mlir.scheduling.builder import Context, Needs, ProgramBuilder, finish_plan
from rammer_mlir.scheduling.caches import SharedConstants
from rammer_mlir.scheduling.costs import fastest, most_efficient, rtask_seconds, work
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.simulator import with_prediction

Readiness = Literal["auto", "operator", "rtask"]

Wave = Sequence[int]
"""The operators of a wave: their producers all belong to earlier waves."""


@dataclass(frozen=True)
class Wavefront:
    """Schedule operators in waves, each rTask on the vEU where it can start first.

    A wave has the operators whose producers all belong to earlier waves. It is appended to the
    current rProgram, unless launching a new rProgram for this wave is predicted to be faster.
    If operators share more weights than the vEUs' caches hold, plans by cache affinity are made
    too: they prefer the vEU whose cache has the weights that an rTask reads. The plan that is
    predicted to be fastest is returned.

    Attributes:
        readiness: determines the time from which an rTask is ready, for the choice of its vEU.
            ``operator``: when all rTasks of its operator are ready, so that a vEU gets neighboring
            rTasks, which share data; ``rtask``: when the rTask itself is ready; ``auto``:
            ``operator`` on devices whose vEUs have caches (``cache_bytes``) or synchronize all
            together, else ``rtask``.

    Raises:
        OptionError: if ``readiness`` is none of these words.
    """

    name: ClassVar[str] = "wavefront"
    keeps_homes: ClassVar[bool] = True

    readiness: Readiness = "auto"

    def __post_init__(self) -> None:
        """Check ``readiness``.

        Raises:
            OptionError: if ``readiness`` is not ``auto``, ``operator`` or ``rtask``.
        """
        if self.readiness not in get_args(Readiness):
            raise OptionError(
                f"policy '{self.name}': readiness: expected one of "
                f"{', '.join(get_args(Readiness))}, found {self.readiness!r}"
            )

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return a plan by waves, or a plan by cache affinity if that is predicted to be faster."""
        plan = self._by_waves(graph, device)
        shared = SharedConstants(graph, device)
        if device.is_bulk_synchronous or not shared.matter:
            return plan
        plans = [plan, *plans_by_affinity(graph, device, plan.kernels, shared)]
        return min(
            (with_prediction(graph, plan, device, shared) for plan in plans),
            key=lambda plan: plan.predicted_seconds,
        )

    def _by_waves(self, graph: TaskGraph, device: Device) -> Plan:
        """Return a plan that schedules wave after wave (``Schedule`` of Algorithm 1).

        A wave has the operators whose producers all belong to earlier waves.
        """
        context = Context(graph, device)
        finished: list[ProgramBuilder] = []
        current = ProgramBuilder(context)
        for wave in waves(context):
            before = current.seconds()
            mark = current.mark()
            schedule_wave(wave, current, context, self.readiness)
            together = current.seconds()
            # Schedule the wave alone too only if the comparison below can prefer a separate launch.
            if before == 0.0 or together <= before + least_seconds(wave, context):
                continue
            chosen = [context.kernels[number] for number in wave]
            alone = ProgramBuilder(context)
            schedule_wave(wave, alone, context, self.readiness)
            if together <= before + alone.seconds():
                for number, kernel in zip(wave, chosen, strict=True):
                    context.kernels[number] = kernel
            else:
                current.reset(mark)
                finished.append(current)
                current = alone
        programs, seconds, requested = finish_plan([*finished, current])
        return Plan(programs, tuple(context.kernels), seconds, requested)


def waves(context: Context) -> Sequence[Wave]:
    """Return the waves: operators of equal depth in the graph, each wave in the graph's order.

    An operator without producers, such as an operator that writes padding or projects the input of
    a later time step, could run in the first wave. But the operator would then delay others, and
    its result would occupy memory for a long time. Therefore an operator without producers belongs
    to the wave just before the wave of its first reader.
    """
    operators = range(len(context.graph.operators))
    producers = [context.dependencies.producers(number) for number in operators]
    depths: list[int] = []
    for sources in producers:
        depths.append(1 + max((depths[producer] for producer in sources), default=-1))
    free = [not sources for sources in producers]
    needed: dict[int, int] = {}
    for number, sources in enumerate(producers):
        for producer in sources:
            if free[producer]:
                needed[producer] = min(needed.get(producer, depths[number]), depths[number])
    found: list[list[int]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for number, depth in enumerate(depths):
        found[needed.get(number, depth + 1) - 1].append(number)
    return found


def least_seconds(wave: Wave, context: Context) -> float:
    """Return a lower bound on the seconds of an rProgram with only ``wave``, launch included."""
    device = context.device
    kernels = [context.graph.operators[number].kernels for number in wave]
    total = sum(min(work(kernel, device) for kernel in candidates) for candidates in kernels)
    longest = max(
        min(rtask_seconds(kernel, device) for kernel in candidates) for candidates in kernels
    )
    return device.launch_seconds + max(total / device.num_veus, longest)


def schedule_wave(
    wave: Wave, program: ProgramBuilder, context: Context, readiness: Readiness = "auto"
) -> None:
    """Append a wave to a program, and choose the rKernels of its operators (``ScheduleWave``).

    If the fastest rKernels of the operators have fewer rTasks in total than there are vEUs, these
    rKernels are chosen. Otherwise the fastest or the most efficient rKernels of all operators are
    chosen, whichever make the program faster by prediction (``SelectRKernels``). An operator with a
    home always gets its most efficient rKernel.
    ``readiness`` is the option of this name of the policy ``Wavefront``.
    """
    operators, device = context.graph.operators, context.device
    thrifty = [most_efficient(operators[number], device) for number in wave]
    # On a single vEU, its home, an operator takes the least time by the most efficient rKernel.
    fast = [
        fastest(operators[number], device) if operators[number].home is None else efficient
        for number, efficient in zip(wave, thrifty, strict=True)
    ]
    total = sum(
        operators[number].kernels[kernel].num_rtasks
        for number, kernel in zip(wave, fast, strict=True)
    )
    if total < device.num_veus or fast == thrifty:
        _append_wave(wave, fast, program, context, readiness)
        return
    mark = program.mark()
    _append_wave(wave, thrifty, program, context, readiness)
    thrifty_seconds = program.seconds()
    program.reset(mark)
    _append_wave(wave, fast, program, context, readiness)
    if thrifty_seconds < program.seconds():
        program.reset(mark)
        _append_wave(wave, thrifty, program, context, readiness)


def _append_wave(
    wave: Wave,
    kernels: Sequence[int],
    program: ProgramBuilder,
    context: Context,
    readiness: Readiness,
) -> None:
    for number, kernel in zip(wave, kernels, strict=True):
        context.kernels[number] = kernel
        needs = program.needs(number)
        seconds = rtask_seconds(context.kernel(number), context.device)
        home = context.graph.operators[number].home
        if home is None:
            veus = _select_veus(program, needs, seconds, context.device, readiness)
        else:
            veus = np.full(len(needs.steps), home, np.int64)
        program.append(number, veus, needs)


def _select_veus(
    program: ProgramBuilder, needs: Needs, seconds: float, device: Device, readiness: Readiness
) -> Int64Array:
    """Return the vEU of each rTask of an operator, chosen by ``readiness`` (``SelectvEU``).

    ``needs`` has the rTasks that each rTask waits for, and ``seconds`` is the time of an rTask.
    """
    free, barrier = program.available, device.barrier_seconds
    if readiness == "auto":
        shares_data = device.cache_bytes > 0 or device.is_bulk_synchronous
        readiness = "operator" if shares_data else "rtask"
    if readiness == "operator":
        return earliest(needs, free, seconds, barrier)
    return earliest_by_rtask(needs, free, program.known(), seconds, barrier)

"""Computes the losses of rOperators: their time above a lower bound for the device."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.explanation.limits import operator_times
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.timeline.spans import Timeline


@dataclass(frozen=True)
class Loss:
    """The time of an rOperator, and the lower bound of this time.

    Attributes:
        name: name of the rOperator in the model.
        rtasks: number of the rOperator's rTasks.
        seconds: time of these rTasks, summed over the vEUs that each of them occupies.
        floor: lower bound of ``seconds``. The maximum of two times: of the arithmetic at the peak
            rate of a vEU, and of the memory traffic at the bandwidth of a vEU while all vEUs share
            the memory.
        limit: ``arithmetic`` or ``memory``: the larger of these two times.
    """

    name: str
    rtasks: int
    seconds: float
    floor: float
    limit: str

    @property
    def lost(self) -> float:
        """The time above the lower bound, in seconds summed over vEUs; at least 0."""
        return max(0.0, self.seconds - self.floor)


def losses(graph: TaskGraph, plan: Plan, device: Device, timeline: Timeline) -> list[Loss]:
    """Return the time and the lower bound of each rOperator, by descending difference.

    Args:
        graph: the rOperators.
        plan: the schedule of the rOperators.
        device: the description of the device on which the plan runs.
        timeline: a predicted or measured run of the plan.
    """
    num_veus = max((program.num_veus for program in plan.programs), default=1)
    bandwidth = min(device.bytes_per_second, device.total_bytes_per_second / num_veus)
    found: list[Loss] = []
    times = operator_times(graph, plan, timeline)
    for operator, number, seconds in zip(graph.operators, plan.kernels, times, strict=True):
        kernel = operator.kernels[number]
        flops = kernel.num_rtasks * kernel.flops_per_rtask
        arithmetic = flops / device.rate(kernel.matrix_element)
        # An exclusive rTask occupies all vEUs, and uses the bandwidth of the whole device.
        occupied = num_veus if kernel.is_exclusive else 1
        seconds *= occupied
        shared = min(occupied * bandwidth, device.total_bytes_per_second) / occupied
        memory = kernel.num_rtasks * kernel.bytes_per_rtask / shared
        limit = "arithmetic" if arithmetic >= memory else "memory"
        floor = max(arithmetic, memory)
        found.append(Loss(operator.name, kernel.num_rtasks, seconds, floor, limit))
    return sorted(found, key=lambda loss: -loss.lost)

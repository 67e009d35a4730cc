"""The profiler's three questions, answered by measurement or a model (RAMMER section 3.3).

The time of an rTask is ``rtask_seconds`` and what it occupies is ``resources``. The time of an
rProgram is ``simulator.simulate`` once finished, ``ProgramBuilder.seconds`` while being written.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import (
    COLD_BYTES,
    FAR_BYTES,
    MeasuredSeconds,
    Reuse,
    RKernel,
    ROperator,
)


@dataclass(frozen=True)
class Resources:
    """What one rTask occupies of a vEU: threads, and bytes of block-local memory."""

    threads: int
    shared_memory: int


def rtask_seconds(kernel: RKernel, device: Device) -> float:
    """Return the time of one rTask on a vEU: as measured, or else by a model.

    The model takes its arithmetic or its traffic, whichever is longer. An operator's rTasks run
    side by side, so as many vEUs as it fills share the memory, also for those that were measured
    alone. Memory that the vEU's cache still holds costs no traffic.
    """
    active = max(1, min(kernel.num_rtasks, device.num_veus))
    traffic = kernel.bytes_per_rtask * far_share(kernel, device)
    if kernel.measured is not None:
        alone = _measured_seconds(kernel, kernel.measured, device)
        bandwidth = device.total_bytes_per_second / active
    else:
        alone = kernel.flops_per_rtask / device.flops_per_second
        bandwidth = min(device.bytes_per_second, device.total_bytes_per_second / active)
    return device.rtask_seconds + max(alone, traffic / bandwidth)


def far_share(kernel: RKernel, device: Device) -> float:
    """Return the share of an rKernel's memory that a vEU's cache does not hold any more."""
    if not kernel.reuse:
        return 1.0
    return sum(use.share for use in kernel.reuse if use.distance > device.cache_bytes)


def _measured_seconds(kernel: RKernel, measured: MeasuredSeconds, device: Device) -> float:
    """Weigh what was measured by where the rKernel's memory is; nothing known counts as cold."""
    uses = kernel.reuse or (Reuse(COLD_BYTES, 1.0),)
    return sum(use.share * _seconds_at(use.distance, measured, device) for use in uses)


def _seconds_at(distance: int, measured: MeasuredSeconds, device: Device) -> float:
    """Return the time with memory used so long ago: between two points the logarithm decides."""
    if distance <= min(device.cache_bytes, COLD_BYTES):
        return measured.hot
    place = log(max(distance, COLD_BYTES) / COLD_BYTES) / log(FAR_BYTES / COLD_BYTES)
    return measured.cold + min(place, 1.0) * (measured.far - measured.cold)


def resources(kernel: RKernel) -> Resources:
    """Return what one rTask occupies."""
    return Resources(kernel.threads, kernel.shared_memory)


def fits(kernel: RKernel, device: Device) -> bool:
    """Return whether a vEU of the device can hold an rTask of the rKernel."""
    used = resources(kernel)
    return used.threads <= device.max_threads and used.shared_memory <= device.max_shared_memory


def runtime(kernel: RKernel, device: Device) -> float:
    """Return the time of a whole rOperator that has the device to itself."""
    rounds = -(-kernel.num_rtasks // device.num_veus)
    return rounds * rtask_seconds(kernel, device)


def work(kernel: RKernel, device: Device) -> float:
    """Return the vEU time that a whole rOperator takes: an rTask's time times their number."""
    return kernel.num_rtasks * rtask_seconds(kernel, device)


def fastest(operator: ROperator, device: Device) -> int:
    """Return the candidate that fits with the smallest runtime."""
    kernels = operator.kernels
    return min(_candidates(operator, device), key=lambda i: runtime(kernels[i], device))


def most_efficient(operator: ROperator, device: Device) -> int:
    """Return the candidate that fits with the smallest product of runtime and rTasks."""
    kernels = operator.kernels
    return min(_candidates(operator, device), key=lambda i: work(kernels[i], device))


def _candidates(operator: ROperator, device: Device) -> list[int]:
    """Return the rKernels that fit; a target's own check refuses a program where none does."""
    fitting = [i for i, kernel in enumerate(operator.kernels) if fits(kernel, device)]
    return fitting or list(range(len(operator.kernels)))

"""The profiler's three questions, answered from a model of the device (RAMMER section 3.3).

The time of an rTask is ``rtask_seconds`` and what it occupies is ``resources``. The time of an
rProgram is ``simulator.simulate`` once finished, ``ProgramBuilder.seconds`` while being written.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import RKernel, ROperator


@dataclass(frozen=True)
class Resources:
    """What one rTask occupies of a vEU: threads, and bytes of block-local memory."""

    threads: int
    shared_memory: int


def rtask_seconds(kernel: RKernel, device: Device) -> float:
    """Return the time of one rTask on a vEU: its arithmetic or its traffic, whichever is longer.

    An operator's rTasks run side by side, so as many vEUs as it fills share the memory.
    """
    active = max(1, min(kernel.num_rtasks, device.num_veus))
    bandwidth = min(device.bytes_per_second, device.total_bytes_per_second / active)
    arithmetic = kernel.flops_per_rtask / device.flops_per_second
    return device.rtask_seconds + max(arithmetic, kernel.bytes_per_rtask / bandwidth)


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

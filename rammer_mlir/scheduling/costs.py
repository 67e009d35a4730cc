"""The profiler's questions, answered from a model of the device (RAMMER section 3.3)."""

from __future__ import annotations

from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import RKernel


def rtask_seconds(kernel: RKernel, device: Device) -> float:
    """Return the time of one rTask on a vEU: its arithmetic or its traffic, whichever is longer."""
    arithmetic = kernel.flops_per_rtask / device.flops_per_second
    traffic = kernel.bytes_per_rtask / device.bytes_per_second
    return device.rtask_seconds + max(arithmetic, traffic)


def runtime(kernel: RKernel, device: Device) -> float:
    """Return the time of a whole rOperator that has the device to itself."""
    rounds = -(-kernel.num_rtasks // device.num_veus)
    return rounds * rtask_seconds(kernel, device)


def fastest(kernels: tuple[RKernel, ...], device: Device) -> int:
    """Return the candidate with the smallest runtime."""
    return min(range(len(kernels)), key=lambda i: runtime(kernels[i], device))


def most_efficient(kernels: tuple[RKernel, ...], device: Device) -> int:
    """Return the candidate with the smallest product of an rTask's time and their number."""
    return min(
        range(len(kernels)),
        key=lambda i: rtask_seconds(kernels[i], device) * kernels[i].num_rtasks,
    )

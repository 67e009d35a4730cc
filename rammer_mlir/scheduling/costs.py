"""Computes times and resources of rTasks, as the profiler of RAMMER does (section 3.3).

Times are measured, or modeled if there is no measurement. ``rtask_seconds`` returns the time of an
rTask, ``resources`` its resource use. The time of a finished plan is computed by
``simulator.simulate``, the time of an rProgram under construction by ``ProgramBuilder.seconds``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import (
    COLD_BYTES,
    FAR_BYTES,
    MeasuredSeconds,
    RKernel,
    ROperator,
)


@dataclass(frozen=True)
class Resources:
    """The resources of an rTask on a vEU: threads, and bytes of block-local memory."""

    threads: int
    shared_memory: int


def rtask_seconds(kernel: RKernel, device: Device) -> float:
    """Return the seconds of one rTask on a vEU: measured, or modeled if there is no measurement.

    The modeled time is the larger of arithmetic time and memory traffic time. An operator's rTasks
    run concurrently, so the vEUs that run them share the memory bandwidth. An rTask is measured
    while no other rTask runs, so a measured time is raised to the memory traffic time at the shared
    bandwidth, if that is longer. Data that the vEU's cache still holds causes no traffic. An
    exclusive rTask, which runs alone on the device, computes at the rate of all vEUs together.
    """
    active = max(1, min(kernel.num_rtasks, device.num_veus))
    shared = device.total_bytes_per_second / active
    traffic = traffic_bytes(kernel, device)
    if kernel.measured is not None:
        alone = _measured_seconds(kernel, kernel.measured, device)
        together = traffic / shared if active > 1 else 0.0
        return device.rtask_seconds + max(alone, together)
    width = device.num_veus if kernel.is_exclusive else 1
    arithmetic = kernel.flops_per_rtask / (width * device.rate(kernel.matrix_element))
    bandwidth = min(width * device.bytes_per_second, shared)
    return device.rtask_seconds + max(arithmetic, traffic / bandwidth)


def seconds_with_traffic(kernel: RKernel, device: Device, traffic: float) -> float:
    """Return the seconds of one rTask on a vEU whose cache lacks ``traffic`` bytes of the operands.

    All vEUs are assumed to load data at the same time, with equal shares of the memory bandwidth.
    """
    width = device.num_veus if kernel.is_exclusive else 1
    if kernel.measured is None:
        shared = width * device.total_bytes_per_second / device.num_veus
        bandwidth = min(width * device.bytes_per_second, shared)
        compute = kernel.flops_per_rtask / (width * device.rate(kernel.matrix_element))
        return device.rtask_seconds + max(compute, traffic / bandwidth)
    part = min(1.0, traffic / max(kernel.bytes_per_rtask, 1))
    alone = kernel.measured.hot + part * (kernel.measured.cold - kernel.measured.hot)
    together = traffic * device.num_veus / (width * device.total_bytes_per_second)
    return device.rtask_seconds + max(alone, together)


def traffic_bytes(kernel: RKernel, device: Device) -> float:
    """Return the bytes that an rTask moves between its vEU's cache and memory.

    Data that several rTasks touch is loaded once; data that is still in the cache is not loaded. If
    no reuse distances are known or the vEU has no cache, return ``kernel.bytes_per_rtask``.
    """
    if not kernel.reuse or not device.cache_bytes:
        return kernel.bytes_per_rtask
    far = sum(use.num_bytes for use in kernel.reuse if use.distance > device.cache_bytes)
    return min(kernel.bytes_per_rtask, far / kernel.num_rtasks)


def _measured_seconds(kernel: RKernel, measured: MeasuredSeconds, device: Device) -> float:
    """Return an rTask's measured seconds at the reuse distances of its operands.

    The result is the mean over all parts of the operands (``kernel.reuse``), weighted by their
    bytes. If no reuse distances are known, return ``measured.cold``.
    """
    total = sum(use.num_bytes for use in kernel.reuse)
    if not total:
        return measured.cold
    seconds = ((use.num_bytes, _seconds_at(use.distance, measured, device)) for use in kernel.reuse)
    return sum(num_bytes * at for num_bytes, at in seconds) / total


def _seconds_at(distance: int, measured: MeasuredSeconds, device: Device) -> float:
    """Return an rTask's seconds at a reuse distance that all its operands share.

    ``distance`` is the bytes that the program touches between two uses of the operands. The seconds
    are ``measured.hot`` if the operands stay in the cache. Else they rise with the distance from
    ``measured.cold`` to ``measured.far`` (``far_part``).
    """
    if distance <= min(device.cache_bytes, COLD_BYTES):
        return measured.hot
    return measured.cold + float(far_part(distance)) * (measured.far - measured.cold)


def far_part(distance: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of ``MeasuredSeconds.far`` at a reuse distance in bytes, from 0 to 1.

    The weight of ``MeasuredSeconds.cold`` is 1 minus this weight. The weight rises linearly from
    ``COLD_BYTES`` to ``FAR_BYTES``, because a cache that other programs share loses data gradually.
    """
    return np.clip((distance - COLD_BYTES) / (FAR_BYTES - COLD_BYTES), 0.0, 1.0)


def resources(kernel: RKernel) -> Resources:
    """Return the resources that one rTask of an rKernel needs on a vEU."""
    return Resources(kernel.threads, kernel.shared_memory)


def fits(kernel: RKernel, device: Device) -> bool:
    """Whether the threads and the block-local memory of an rTask fit on a vEU of the device."""
    used = resources(kernel)
    return used.threads <= device.max_threads and used.shared_memory <= device.max_shared_memory


def runtime(kernel: RKernel, device: Device) -> float:
    """Return the seconds of a whole rOperator if no other rOperator runs on the device."""
    rounds = -(-kernel.num_rtasks // device.num_veus)
    return rounds * rtask_seconds(kernel, device)


def work(kernel: RKernel, device: Device) -> float:
    """Return the vEU seconds of a whole rOperator: the sum of the seconds of all its rTasks."""
    return kernel.num_rtasks * rtask_seconds(kernel, device)


def fastest(operator: ROperator, device: Device) -> int:
    """Return the index of the rKernel of smallest runtime among those that fit on a vEU.

    If no rKernel fits, all rKernels are considered.
    """
    kernels = operator.kernels
    return min(candidates(operator, device), key=lambda i: runtime(kernels[i], device))


def most_efficient(operator: ROperator, device: Device) -> int:
    """Return the index of the rKernel of least total rTask time among those that fit on a vEU.

    If no rKernel fits, all rKernels are considered.
    """
    kernels = operator.kernels
    return min(candidates(operator, device), key=lambda i: work(kernels[i], device))


def candidates(operator: ROperator, device: Device) -> list[int]:
    """Return the indices of the rKernels that fit on a vEU, or of all rKernels if none fits.

    If none fits, the target refuses the program later.
    """
    fitting = [i for i, kernel in enumerate(operator.kernels) if fits(kernel, device)]
    return fitting or list(range(len(operator.kernels)))

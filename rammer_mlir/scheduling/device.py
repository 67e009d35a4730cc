"""vDevices: what a schedule is made for (RAMMER section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A set of equal virtual execution units.

    Attributes:
        name: the target's name.
        num_veus: number of vEUs.
        flops_per_second: scalar operations per second of one vEU.
        bytes_per_second: bytes per second of one vEU.
        rtask_seconds: fixed cost of starting one rTask.
        barrier_seconds: cost of one barrier-rTask whose waits are already satisfied.
        launch_seconds: cost of starting one rProgram.
    """

    name: str
    num_veus: int
    flops_per_second: float
    bytes_per_second: float
    rtask_seconds: float
    barrier_seconds: float
    launch_seconds: float


def cpu_device(num_veus: int) -> Device:
    """Return a CPU with ``num_veus`` threads.

    The figures are round ones for one core of a present server processor: what a vectorised
    rKernel sustains, and the time in which two spinning threads meet.
    """
    return Device(
        name="cpu",
        num_veus=num_veus,
        flops_per_second=40e9,
        bytes_per_second=8e9,
        rtask_seconds=0.05e-6,
        barrier_seconds=0.25e-6,
        launch_seconds=4e-6,
    )

"""Tests that the lower bounds of a program's time are right, and the measured rates plausible.

The rates of the processor determine the bounds.
"""

import time

import pytest

from rammer_mlir.benchmarks.bench import Request, Result, Timing
from rammer_mlir.benchmarks.contenders.ours import KernelWork, Work
from rammer_mlir.benchmarks.limits import limit_table, limits
from rammer_mlir.benchmarks.models.counts import Counts
from rammer_mlir.benchmarks.roofline import Roofline, measure_roofline
from rammer_mlir.benchmarks.timing import Latency

MIB = 1 << 20
ROOFLINE = Roofline(2, 200e9, {MIB: 100e9, 16 * MIB: 20e9}, 1e-6)
"""The rates of a machine with two threads."""

KERNELS = [
    KernelWork("product", "fc", 1, 10**9, 10**6, 20e-3),  # bound: 10 ms of one thread
    KernelWork("copy", "pad", 3, 0, 2 * 10**7, 2.5e-3),  # bound: 2 ms of one thread
    KernelWork("slow", "gather", 1, 0, 10**6, 50e-3),  # bound: 0.1 ms of one thread
    KernelWork("perfect", "relu", 2, 0, 10**6, 0.1e-3),
]


def result(flops: int, touched: int, footprint: int, seconds: float) -> Result:
    latency = Latency(seconds, seconds, seconds, 5)
    work = Work("wavefront", 2, touched, footprint, 1.0, 0.25, KERNELS)
    timing = Timing("wavefront", 2, latency, 0.0)
    return Result(Request("mlp"), Counts(1, 4, flops), None, [timing], [work])


@pytest.mark.parametrize(
    ("flops", "touched", "footprint", "binding", "floor"),
    [
        (2 * 10**9, 10**6, 20 * MIB, "arithmetic", 10e-3),
        (10**6, 10**8, 20 * MIB, "memory", 5e-3),  # from memory
        (10**6, 10**8, 2 * MIB, "memory", 1e-3),  # from a cache
        (10**6, 10**8, 2, "memory", 1e-3),  # smaller than all that was measured
        (10, 10, 20, "launch", 1e-6),
    ],
)
def test_the_highest_bound_binds(
    flops: int, touched: int, footprint: int, binding: str, floor: float
) -> None:
    (found,) = limits([result(flops, touched, footprint, 20e-3)], [ROOFLINE])
    assert found.binding == binding
    assert found.reached == pytest.approx(floor / 20e-3)


def test_rkernels_are_named_by_the_time_that_they_lose() -> None:
    (found,) = limits([result(2 * 10**9, 10**6, 20 * MIB, 20e-3)], [ROOFLINE])
    assert [kernel.operator for kernel in found.worst] == ["gather", "fc", "pad"]
    assert [kernel.is_arithmetic for kernel in found.worst] == [False, True, False]
    assert found.worst[1].floor == pytest.approx(10e-3)
    row = limit_table([found]).splitlines()[2]
    assert "fc (28%, 50% of arithmetic); pad and 2 more (3%, 80% of memory)" in row


def test_models_without_a_measurement_have_no_limits() -> None:
    assert limits([Result(Request("mlp"), error="failed")], [ROOFLINE]) == []
    assert limits([result(1, 1, 1, 1.0)], []) == []


def test_the_processor_is_measured() -> None:
    """The measured rates of this processor are plausible.

    They exceed rates that every 64-bit processor exceeds. The bandwidth for a small working set is
    at least half of main memory's.
    """
    begin = time.perf_counter()
    found = measure_roofline(1)
    assert time.perf_counter() - begin < 30
    assert found.flops_per_second > 1e9
    assert min(found.bytes_per_second.values()) > 1e8
    assert found.bandwidth(0) > 0.5 * found.bandwidth(1 << 40)
    assert 0 < found.launch_seconds < 1

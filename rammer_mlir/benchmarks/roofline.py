"""Measure the peak rates of this processor: ``python -m rammer_mlir.benchmarks.roofline``.

Two loops are timed with each number of threads: fused multiply-adds on registers, and sums over
working sets. The sizes of the working sets range from a core's second-level cache to main memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from rammer_mlir.benchmarks.launch import measure_launch
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.peak_loops import PeakLoops
from rammer_mlir.lowering.llvm.machine import host_machine

_WORKING_SETS = tuple(1 << bits for bits in (18, 20, 22, 24, 26, 28))
"""Sizes in bytes of the working sets that each core reads repeatedly."""
_SWEEP_BYTES = 1 << 27
_REPEATS = 7


@dataclass(frozen=True)
class Roofline:
    """The processor's peak rates with a number of threads.

    Attributes:
        threads: number of threads.
        flops_per_second: peak rate of f32 arithmetic on registers; a fused multiply-add counts as
            two operations.
        bytes_per_second: read bandwidth of all threads together. The key is the total size of the
            threads' working sets in bytes.
        launch_seconds: time of launching a program without rTasks.
    """

    threads: int
    flops_per_second: float
    bytes_per_second: dict[int, float]
    launch_seconds: float

    def bandwidth(self, footprint: float) -> float:
        """Return the measured read bandwidth, in bytes per second, for ``footprint`` bytes of data.

        The result is the bandwidth of the largest measured working set of at most ``footprint``
        bytes, or of the smallest measured working set if none is that small.
        """
        fitting = [size for size in self.bytes_per_second if size <= footprint]
        return self.bytes_per_second[max(fitting, default=min(self.bytes_per_second))]


def measure_roofline(threads: int) -> Roofline:
    """Measure the processor's peak rates with a number of threads.

    The measured rates are too low if other work runs on the machine.
    """
    loops = PeakLoops(host_machine())
    with ThreadPoolExecutor(threads) as pool:

        def everywhere(run: Callable[[int], object]) -> float:
            return _fastest(lambda: list(pool.map(run, range(threads))))

        seconds = everywhere(lambda _: loops.multiply_add())
        flops = threads * loops.flops / seconds
        bandwidth = {
            threads * size: _bandwidth(loops, size, threads, everywhere) for size in _WORKING_SETS
        }
    return Roofline(threads, flops, bandwidth, measure_launch(threads).native * 1e-6)


def _bandwidth(
    loops: PeakLoops,
    size: int,
    threads: int,
    everywhere: Callable[[Callable[[int], object]], float],
) -> float:
    data = [np.ones(size // 4, np.float32) for _ in range(threads)]
    sweeps = max(1, _SWEEP_BYTES // size)
    seconds = everywhere(lambda thread: loops.read(data[thread], sweeps))
    return threads * size * sweeps / seconds


def _fastest(run: Callable[[], object]) -> float:
    """Return the seconds of the shortest of ``_REPEATS`` calls of ``run``.

    The shortest call is closest to the peak rate.
    """
    times: list[float] = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def roofline_table(rooflines: Sequence[Roofline]) -> str:
    """Return a table of peak rates with a row for each number of threads."""
    sizes = _WORKING_SETS
    rows = [["threads", "GFLOP/s", *(f"GB/s, {size / 2**20:g} MiB each" for size in sizes)]]
    for one in rooflines:
        speeds = [f"{one.bytes_per_second[one.threads * size] / 1e9:.1f}" for size in sizes]
        rows.append([str(one.threads), f"{one.flops_per_second / 1e9:.1f}", *speeds])
    return table(rows)


def main() -> int:
    """Print the peak arithmetic and memory rates of one thread and of two threads; return 0."""
    print(roofline_table([measure_roofline(threads) for threads in (1, 2)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

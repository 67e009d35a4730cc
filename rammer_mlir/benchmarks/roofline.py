"""What this processor can do at best: ``python -m rammer_mlir.benchmarks.roofline``.

Two loops that do nothing else are timed with each number of threads: fused multiply-adds on
registers, and a sum, over working sets from a core's own cache to main memory.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from rammer_mlir.benchmarks.launch import measure_launch
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine

_CHAINS = 12
"""Independent multiply-adds under way: latency 4, two units, and some to spare."""
_TRIPS = 1 << 17
_WORKING_SETS = tuple(1 << bits for bits in (18, 20, 22, 24, 26, 28))
"""Bytes that a core goes over again and again."""
_SWEEP_BYTES = 1 << 27
_REPEATS = 7


@dataclass(frozen=True)
class Roofline:
    """The processor's limits with a number of threads.

    Attributes:
        flops_per_second: multiplications and additions, f32, fused, from registers.
        bytes_per_second: of reading, by working set in bytes, all threads together.
        launch_seconds: of a program without rTasks.
    """

    threads: int
    flops_per_second: float
    bytes_per_second: dict[int, float]
    launch_seconds: float

    def bandwidth(self, footprint: float) -> float:
        """Return the bandwidth of the largest measured working set that is not above one's own."""
        fitting = [size for size in self.bytes_per_second if size <= footprint]
        return self.bytes_per_second[max(fitting, default=min(self.bytes_per_second))]


def measure_roofline(threads: int) -> Roofline:
    """Measure with a number of threads; other work on the machine makes the result smaller."""
    loops = _Loops(host_machine())
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
    loops: _Loops, size: int, threads: int, everywhere: Callable[[Callable[[int], object]], float]
) -> float:
    data = [np.ones(size // 4, np.float32) for _ in range(threads)]
    sweeps = max(1, _SWEEP_BYTES // size)
    seconds = everywhere(lambda thread: loops.read(data[thread], sweeps))
    return threads * size * sweeps / seconds


def _fastest(run: Callable[[], object]) -> float:
    """Return the shortest time: a limit is what was reached once."""
    times: list[float] = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


class _Loops:
    """The two loops as native code; calls release Python's lock."""

    def __init__(self, machine: Machine) -> None:
        lanes = machine.vector_bits // 32
        self.flops = 2 * lanes * _CHAINS * _TRIPS
        self._code: Library = load_object(emit_object(_text(lanes), machine))
        pointer, word, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        fma, read = (self._code.address(name) for name in ("fma_peak", "read_peak"))
        self._fma: Any = ctypes.CFUNCTYPE(number, word, number)(fma)
        self._read: Any = ctypes.CFUNCTYPE(number, pointer, word, word)(read)
        self._step = lanes * _CHAINS

    def multiply_add(self) -> float:
        """Do ``flops`` operations."""
        return self._fma(_TRIPS, 0.5)

    def read(self, data: np.ndarray[Any, np.dtype[np.float32]], sweeps: int) -> float:
        """Read an array several times; up to one step of its end is left out."""
        return self._read(data.ctypes.data, data.size // self._step * self._step, sweeps)


def _text(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    chains = range(_CHAINS)
    fma = "\n".join(
        f"  %b{n} = call {vector} @llvm.fma({vector} %a{n}, {vector} %v, {vector} %v)"
        for n in chains
    )
    add = "\n".join(
        f"  %p{n} = getelementptr float, ptr %at, i64 {n * lanes}\n"
        f"  %x{n} = load {vector}, ptr %p{n}, align 4\n"
        f"  %b{n} = fadd {vector} %a{n}, %x{n}"
        for n in chains
    )
    total = "\n".join(
        f"  %t{n} = fadd {vector} {'zeroinitializer' if n == 0 else f'%t{n - 1}'}, %b{n}"
        for n in chains
    )

    def phis(block: str) -> str:
        return "\n".join(
            f"  %a{n} = phi {vector} [ zeroinitializer, %entry ], [ %b{n}, %{block} ]"
            for n in chains
        )

    result = (
        f"{total}\n  %sum = call float @llvm.vector.reduce.fadd(float 0.0, "
        f"{vector} %t{_CHAINS - 1})\n  ret float %sum"
    )
    return f"""declare {vector} @llvm.fma({vector}, {vector}, {vector})
declare float @llvm.vector.reduce.fadd(float, {vector})
define float @fma_peak(i64 %trips, float %x) {{
entry:
  %v0 = insertelement {vector} poison, float %x, i64 0
  %v = shufflevector {vector} %v0, {vector} poison, <{lanes} x i32> zeroinitializer
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
{phis("body")}
{fma}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %trips
  br i1 %more, label %body, label %exit
exit:
{result}
}}
define float @read_peak(ptr %data, i64 %size, i64 %sweeps) {{
entry:
  br label %body
body:
  %sweep = phi i64 [ 0, %entry ], [ %sweep.next, %body ]
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
{phis("body")}
  %at = getelementptr float, ptr %data, i64 %i
{add}
  %j = add i64 %i, {lanes * _CHAINS}
  %end = icmp sge i64 %j, %size
  %i.next = select i1 %end, i64 0, i64 %j
  %one = zext i1 %end to i64
  %sweep.next = add i64 %sweep, %one
  %more = icmp slt i64 %sweep.next, %sweeps
  br i1 %more, label %body, label %exit
exit:
{result}
}}
"""


def roofline_table(rooflines: Sequence[Roofline]) -> str:
    """One row for each number of threads."""
    sizes = _WORKING_SETS
    rows = [["threads", "GFLOP/s", *(f"GB/s, {size / 2**20:g} MiB each" for size in sizes)]]
    for one in rooflines:
        speeds = [f"{one.bytes_per_second[one.threads * size] / 1e9:.1f}" for size in sizes]
        rows.append([str(one.threads), f"{one.flops_per_second / 1e9:.1f}", *speeds])
    return table(rows)


def main() -> int:
    """Print the limits of one thread and of two."""
    print(roofline_table([measure_roofline(threads) for threads in (1, 2)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compile two native loops that reach a processor's peak arithmetic and memory read rates."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import Machine

_CHAINS = 12
"""Number of independent chains of multiply-adds: 2 units times 4 cycles of latency, and 4 more."""

_TRIPS = 1 << 17
"""Number of iterations of the loop of multiply-adds."""


class PeakLoops:
    """Two native loops: fused multiply-adds on vector registers, and the sum of an array.

    Calls release Python's global lock. ``flops`` is the number of floating-point operations of a
    call of ``multiply_add``.
    """

    def __init__(self, machine: Machine) -> None:
        """Compile and load the loops of multiply-adds and of reads for a processor."""
        lanes = machine.vector_bits // 32
        self.flops = 2 * lanes * _CHAINS * _TRIPS
        self._code: Library = load_object(emit_object(_text(lanes), machine))
        pointer, word, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        fma, read = (self._code.address(name) for name in ("fma_peak", "read_peak"))
        self._fma: Callable[[int, float], float] = ctypes.CFUNCTYPE(number, word, number)(fma)
        self._read: Callable[[int, int, int], float] = ctypes.CFUNCTYPE(
            number, pointer, word, word
        )(read)
        self._step = lanes * _CHAINS

    def multiply_add(self) -> float:
        """Run the loop of multiply-adds; return the sum of its accumulators' elements.

        The loop executes ``flops`` floating-point operations.
        """
        return self._fma(_TRIPS, 0.5)

    def read(self, data: NDArray[np.float32], sweeps: int) -> float:
        """Read the array ``data`` ``sweeps`` times; return the sum of the elements that are read.

        An unrolled iteration of the loop reads a fixed number of elements. The elements after the
        last complete iteration are not read.
        """
        return self._read(data.ctypes.data, data.size // self._step * self._step, sweeps)


def _text(lanes: int) -> str:
    """Return both loops as LLVM IR on vector registers of ``lanes`` floats."""
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

"""The time of an rTask, by running all rTasks of one rKernel on this processor again and again."""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.aligned import aligned_bytes
from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import find_kernels, lower_kernels
from rammer_mlir.lowering.llvm.codegen import emit_object, to_llvm_ir
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.profiling.isolate import KERNEL, KernelSource
from rammer_mlir.passes.structured import element_bytes
from rammer_mlir.scheduling.graph import COLD_BYTES, FAR_BYTES, MeasuredSeconds

_LOOP = "rammer_profile"

_SAMPLES = 7
"""Timed samples of each kind; the median of the faster half stands for all."""
_SAMPLE_SECONDS = 1e-4
"""Least time of a sample: far above what a call from Python and the clock cost."""
_MOST_SECONDS = 1.0
"""After this time no further sample is taken: a slow rKernel is measured well by a few."""
_MOST_ROUNDS = 1 << 20
"""Rounds of a sample for an rKernel that does nothing, as one of an empty tensor does."""
_MOST_FAR_SAMPLES = 3
"""Each reads much memory before."""


_ONE_AT_A_TIME = threading.Lock()
"""Threads would disturb each other's measurements; and the bindings do not compile side by side."""


def measure(source: KernelSource) -> MeasuredSeconds:
    """Compile an rKernel for this processor and time it, in this process, on one thread.

    Raises:
        TargetError: if it cannot be compiled.
        UnsupportedError: if it holds what the CPU target does not have.
    """
    with _ONE_AT_A_TIME:
        text, arguments = _compile(source)
        library = load_object(emit_object(text, host_machine()))
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        function = prototype(library.address(_LOOP))
        pointers = np.array([array.ctypes.data for array in arguments], dtype=np.uint64)
        address = pointers.ctypes.data
        loop = _Loop(lambda rounds, rtasks: function(rounds, rtasks, address), source.num_rtasks)
        return loop.measure()


def _compile(source: KernelSource) -> tuple[str, list[NDArray[np.uint8]]]:
    """Return LLVM IR of the rKernel and of a loop over its rTasks, and memory for its arguments."""
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = ir.Module.parse(source.text)
        (kernel,) = find_kernels(module)
        arguments = [_random_argument(t, n) for n, t in enumerate(_argument_types(kernel))]
        lower_kernels(module, host_machine())
        for op in module.body.operations:
            if op.operation.name == "llvm.func":
                # Else what is the same in every round would be done once.
                op.operation.attributes["no_inline"] = ir.UnitAttr.get()
        addition = ir.Module.parse(_loop(len(arguments)))
        loop = list(addition.body.operations)[-1]
        loop.operation.detach_from_parent()
        module.body.append(loop)
        return to_llvm_ir(module), arguments


@dataclass
class _Loop:
    """Native code that runs so many rounds of so many rTasks."""

    run: Callable[[int, int], None]
    num_rtasks: int

    def measure(self) -> MeasuredSeconds:
        deadline = time.perf_counter() + _MOST_SECONDS
        self.run(1, self.num_rtasks)  # touches all pages
        call = _low([_timed(lambda: self.run(0, 0)) for _ in range(5 * _SAMPLES)])
        rounds = 1
        while rounds < _MOST_ROUNDS:
            if _timed(partial(self.run, rounds, self.num_rtasks)) >= _SAMPLE_SECONDS:
                break
            rounds *= 2
        whole = partial(self.run, 1, self.num_rtasks)
        hot = self._samples(partial(self.run, rounds, self.num_rtasks), 0, _SAMPLES, deadline)
        cold = self._samples(whole, COLD_BYTES, _SAMPLES, deadline)
        far = self._samples(whole, FAR_BYTES, _MOST_FAR_SAMPLES, deadline)
        hot_seconds = max(_low(hot) - call, 1e-9) / (rounds * self.num_rtasks)
        cold_seconds = max((_low(cold) - call) / self.num_rtasks, hot_seconds)
        far_seconds = max((_low(far) - call) / self.num_rtasks, cold_seconds)
        return MeasuredSeconds(hot_seconds, cold_seconds, far_seconds)

    def _samples(
        self, run: Callable[[], None], evicted: int, most: int, deadline: float
    ) -> list[float]:
        """Time something several times, each time after so many bytes of other memory were read."""
        other = np.zeros(evicted // 8)
        other += 1.0  # or else all pages are the same one
        samples: list[float] = []
        while len(samples) < 2 or (len(samples) < most and time.perf_counter() < deadline):
            other.sum()
            self.run(0, 0)  # brings back what the call itself needs
            samples.append(_timed(run))
        return samples


def _timed(run: Callable[[], None]) -> float:
    """Return the processor's time, which stands still while other processes have the core."""
    begin = time.thread_time_ns()
    run()
    return (time.thread_time_ns() - begin) * 1e-9


def _low(samples: Sequence[float]) -> float:
    """Return the median of the faster half: what others do on the machine only makes it slower."""
    return statistics.median(sorted(samples)[: (len(samples) + 1) // 2])


def _argument_types(kernel: ir.Operation) -> list[ir.MemRefType]:
    inputs = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs
    return [ir.MemRefType(kind) for kind in inputs[1:]]


def _random_argument(kind: ir.MemRefType, seed: int) -> NDArray[np.uint8]:
    """Return memory for an argument: floats of [-1, 1), everything else 0, so that it may index."""
    strides, offset = kind.get_strides_and_offset()
    last = sum((size - 1) * stride for size, stride in zip(kind.shape, strides, strict=True))
    reach = -1 if 0 in kind.shape else offset + last
    width = element_bytes(kind)
    memory = aligned_bytes((reach + 1) * width)
    floats = {ir.F32Type: np.float32, ir.F64Type: np.float64, ir.F16Type: np.float16}
    for float_type, dtype in floats.items():
        if isinstance(kind.element_type, float_type):
            generator = np.random.default_rng(seed)
            memory.view(dtype)[:] = generator.uniform(-1, 1, reach + 1).astype(dtype)
    return memory


def _loop(num_arguments: int) -> str:
    """Return a function ``(rounds, rTasks, pointers)`` that calls the rKernel in two loops.

    An rKernel that fills memory with a constant would be called once, if nothing else in the loops
    might change that memory.
    """
    pointers = "\n".join(
        f"  %s{n} = llvm.getelementptr %pointers[{n}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
        f"  %p{n} = llvm.load %s{n} : !llvm.ptr -> !llvm.ptr"
        for n in range(num_arguments)
    )
    names = "".join(f", %p{n}" for n in range(num_arguments))
    kinds = ", ".join(["i64", *["!llvm.ptr"] * num_arguments])
    return f"""
llvm.func @{KERNEL}({kinds})
llvm.func @{_LOOP}(%rounds: i64, %rtasks: i64, %pointers: !llvm.ptr) {{
{pointers}
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^round(%zero : i64)
^round(%r: i64):
  %more = llvm.icmp "slt" %r, %rounds : i64
  llvm.cond_br %more, ^rtask(%zero : i64), ^done
^rtask(%t: i64):
  llvm.call @{KERNEL}(%t{names}) : ({kinds}) -> ()
  llvm.inline_asm has_side_effects "", "~{{memory}}" : () -> ()
  %next = llvm.add %t, %one : i64
  %again = llvm.icmp "slt" %next, %rtasks : i64
  llvm.cond_br %again, ^rtask(%next : i64), ^end
^end:
  %round = llvm.add %r, %one : i64
  llvm.br ^round(%round : i64)
^done:
  llvm.return
}}
"""

"""Measures the average seconds of an rTask, by repeatedly executing an rKernel on this processor.

Three times are measured, which differ in the contents of the caches:

- Hot: the rKernel's data is in the core's second-level cache, but not in its first-level cache,
  because other rTasks of a program would evict it from there. An rKernel with little data is
  therefore executed on several copies of its buffers, one copy after the other. An rKernel whose
  data exceeds the second-level cache is measured in groups of rTasks that fit in this cache.
- Cold: ``COLD_BYTES`` of other data are read before each timed call.
- Far: ``FAR_BYTES`` of other data are read before each timed call.
"""

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

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.external.linking import linked_ir, linked_objects
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.lowering.profiling.isolate import KERNEL, KernelSource
from rammer_mlir.lowering.profiling.native_kernel import define_if_external, open_states
from rammer_mlir.passes.ir.entry import functions
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.scheduling.graph import COLD_BYTES, FAR_BYTES, MeasuredSeconds
from rammer_mlir.support.aligned import aligned_bytes

_LOOP = "rammer_profile"

_SAMPLES = 7
"""Number of timed samples of each kind; the result is the median of the faster half."""
_SAMPLE_SECONDS = 1e-4
"""Shortest time of a sample in seconds: far above that of a Python call and of the clock."""
_MOST_SECONDS = 1.0
"""Processor seconds after which no more samples are taken: a slow rKernel needs few samples."""
_MOST_ROUNDS = 1 << 20
"""Largest number of rounds of a sample, for an rKernel without work (of an empty tensor)."""
_MOST_FAR_SAMPLES = 5
"""Largest number of samples of far times; before each, ``FAR_BYTES`` of other data are read."""
_NEAR_BYTES = 256 << 10
"""Total bytes of the copies of an rKernel's memory: more than a core's first-level cache."""
_LEAST_BYTES = 1 << 10
"""Smallest number of bytes assumed for an rKernel's memory, to limit the number of copies."""
_HOT_BYTES = 1 << 20
"""Most bytes of a group of rTasks that is timed hot: they fit in a core's second-level cache."""
_MOST_GROUPS = 4
"""Largest number of groups of rTasks that are timed: all rTasks of an rKernel are alike."""


_ONE_AT_A_TIME = threading.Lock()
"""Serializes measurements.

Threads would disturb each other, and the bindings' compilation is not thread-safe.
"""


def measure(source: KernelSource) -> MeasuredSeconds:
    """Compile an rKernel for this processor; return the average seconds per rTask on one thread.

    The result has three times: with hot, cold and far data.

    Raises:
        TargetError: if the rKernel cannot be compiled.
        UnsupportedError: if the rKernel has operations that the CPU target does not support.
    """
    with _ONE_AT_A_TIME:
        text, copies = _compile(source)
        machine = host_machine()
        own = emit_object(text, machine, linked_ir(source.code))
        library = load_object(own, *linked_objects(source.code, machine))
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4, ctypes.c_void_p)
        function = prototype(library.address(_LOOP))
        pointers = np.array([[a.ctypes.data for a in arrays] for arrays in copies], dtype=np.uint64)
        address = pointers.ctypes.data

        def run(rounds: int, copies: int, begin: int, end: int) -> None:
            function(rounds, copies, begin, end, address)

        num_bytes = sum(array.nbytes for array in copies[0])
        opened = open_states(source, library, copies[0])
        try:
            return Loop(run, len(copies), source.num_rtasks, num_bytes).measure()
        finally:
            if opened is not None:
                opened.close()


def _compile(source: KernelSource) -> tuple[str, list[list[NDArray[np.uint8]]]]:
    """Return LLVM IR of a loop over an rKernel's rTasks, and memory for the rKernel's arguments.

    The memory is a list of copies of all arguments; a copy has an array of bytes for each argument.
    All copies together are larger than a core's first-level cache (``_NEAR_BYTES``). A copy of less
    than ``_LEAST_BYTES`` counts as ``_LEAST_BYTES``, which limits the number of copies.
    """
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = ir.Module.parse(source.text)
        (kernel,) = functions(module)
        types = _argument_types(kernel.operation)
        arguments = [_random_argument(kind, n) for n, kind in enumerate(types)]
        missing = _NEAR_BYTES // max(sum(array.nbytes for array in arguments), _LEAST_BYTES)
        copies = [
            arguments,
            *([_random_argument(t, n) for n, t in enumerate(types)] for _ in range(missing)),
        ]
        define_if_external(module, source)
        lower_kernels(module, host_machine())
        for op in module.body.operations:
            if op.operation.name == "llvm.func":
                # Otherwise LLVM would hoist loop-invariant work out of the rounds.
                op.operation.attributes["no_inline"] = ir.UnitAttr.get()
        addition = ir.Module.parse(_loop(len(arguments)))
        loop = list(addition.body.operations)[-1]
        loop.operation.detach_from_parent()
        module.body.append(loop)
        return to_llvm_ir(module), copies


@dataclass
class Loop:
    """Native code that runs a range of an rKernel's rTasks repeatedly.

    Attributes:
        run: called with (rounds, copies, begin, end): in each of ``rounds`` rounds, it runs rTasks
            ``begin`` to ``end`` (exclusive) on each of the first ``copies`` copies of the
            arguments.
        num_copies: number of copies of the arguments.
        num_rtasks: number of rTasks of the rKernel.
        num_bytes: bytes of a copy of all arguments.
    """

    run: Callable[[int, int, int, int], None]
    num_copies: int
    num_rtasks: int
    num_bytes: int

    def measure(self) -> MeasuredSeconds:
        """Return the average seconds per rTask with hot, cold and far data."""
        deadline = time.thread_time() + _MOST_SECONDS
        whole = partial(self.run, 1, 1, 0, self.num_rtasks)
        # touches all pages, so that page faults are not measured
        self.run(1, self.num_copies, 0, self.num_rtasks)
        call = _low([_timed(lambda: self.run(0, 0, 0, 0)) for _ in range(5 * _SAMPLES)])
        hot_seconds = self._hot(call, deadline)
        cold = self._samples(whole, COLD_BYTES, _SAMPLES, deadline)
        far = self._samples(whole, FAR_BYTES, _MOST_FAR_SAMPLES, deadline)
        cold_seconds = max((_low(cold) - call) / self.num_rtasks, hot_seconds)
        far_seconds = max((_low(far) - call) / self.num_rtasks, cold_seconds)
        return MeasuredSeconds(hot_seconds, cold_seconds, far_seconds)

    def _hot(self, call: float, deadline: float) -> float:
        """Return the average seconds per rTask with all data in the core's second-level cache.

        Args:
            call: seconds of a call of ``run`` without rTasks, to subtract from each sample.
            deadline: processor time of this thread, in seconds, after which a group of rTasks gets
                only two samples.
        """
        groups = self._groups()
        seconds = 0.0
        for begin, end in groups:
            rounds = 1
            while rounds < _MOST_ROUNDS:
                if (
                    _timed(partial(self.run, rounds, self.num_copies, begin, end))
                    >= _SAMPLE_SECONDS
                ):
                    break
                rounds *= 2
            run = partial(self.run, rounds, self.num_copies, begin, end)
            samples = self._samples(run, 0, _SAMPLES, deadline)
            once = max(_low(samples) - call, 1e-9) / (rounds * self.num_copies)
            seconds += once / (end - begin)
        return seconds / len(groups)

    def _groups(self) -> list[tuple[int, int]]:
        """Return the groups of rTasks to time, each as a range (begin, end) of rTask indices.

        ``end`` is exclusive. The data of a group fits in the core's second-level cache. There are
        at most ``_MOST_GROUPS`` groups, evenly spaced over the rKernel's rTasks.
        """
        size = max(1, min(self.num_rtasks, _HOT_BYTES * self.num_rtasks // max(self.num_bytes, 1)))
        starts = range(0, self.num_rtasks - size + 1, size)
        some = starts[:: -(-len(starts) // _MOST_GROUPS)]
        return [(begin, begin + size) for begin in some]

    def _samples(
        self, run: Callable[[], None], evicted: int, most: int, deadline: float
    ) -> list[float]:
        """Return the seconds of 2 to ``most`` calls of ``run``.

        Args:
            run: the call to time.
            evicted: bytes of other data that are read before each call, to evict the rKernel's data
                from the caches; 0 leaves the caches as they are.
            most: largest number of calls.
            deadline: processor time of this thread, in seconds, after which no more calls are made,
                except the first two.
        """
        other = np.zeros(evicted // 8)
        other += 1.0  # written once, or else all pages would map to the same zero page
        samples: list[float] = []
        # Take at least two samples even after the deadline, for a median.
        while len(samples) < 2 or (len(samples) < most and time.thread_time() < deadline):
            other.sum()
            self.run(0, 0, 0, 0)  # reloads the code and data of the call itself
            samples.append(_timed(run))
        return samples


def _timed(run: Callable[[], None]) -> float:
    """Call ``run``; return the processor time in seconds that this thread used in the call."""
    begin = time.thread_time_ns()
    run()
    return (time.thread_time_ns() - begin) * 1e-9


def _low(samples: Sequence[float]) -> float:
    """Return the median of the faster half of ``samples``.

    Slow samples are ignored, since other work on the machine can only lengthen a sample.
    """
    return statistics.median(sorted(samples)[: (len(samples) + 1) // 2])


def _argument_types(kernel: ir.Operation) -> list[ir.MemRefType]:
    inputs = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs
    return [ir.MemRefType(kind) for kind in inputs[1:]]


def _random_argument(kind: ir.MemRefType, seed: int) -> NDArray[np.uint8]:
    """Return memory for an argument of the memref type ``kind``, as bytes.

    Elements of type f16, f32 or f64 are random in [-1, 1), all others are zeros. ``seed`` is the
    seed of the random elements.
    """
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
    """Return LLVM dialect text of a function that executes rTasks of the rKernel repeatedly.

    The function's arguments are ``(rounds, copies, begin, end, pointers)``. In each round and for
    each copy of the rKernel's buffers, the function executes the rTasks from ``begin`` to ``end``
    (exclusive). ``pointers`` is an array with the addresses of the first copy's buffers, then those
    of the second copy, and so on. A side effect in the loop prevents LLVM from hoisting an rKernel
    that fills memory with a constant.
    """
    pointers = "\n".join(
        f"  %s{n} = llvm.getelementptr %own[{n}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
        f"  %p{n} = llvm.load %s{n} : !llvm.ptr -> !llvm.ptr"
        for n in range(num_arguments)
    )
    names = "".join(f", %p{n}" for n in range(num_arguments))
    kinds = ", ".join(["i64", *["!llvm.ptr"] * num_arguments])
    return f"""
llvm.func @{KERNEL}({kinds})
llvm.func @{_LOOP}(%rounds: i64, %copies: i64, %begin: i64, %end: i64, %pointers: !llvm.ptr) {{
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^round(%zero : i64)
^round(%r: i64):
  %more = llvm.icmp "slt" %r, %rounds : i64
  llvm.cond_br %more, ^copy(%zero, %pointers : i64, !llvm.ptr), ^done
^copy(%c: i64, %own: !llvm.ptr):
  %another = llvm.icmp "slt" %c, %copies : i64
  llvm.cond_br %another, ^load, ^end_of_round
^load:
{pointers}
  %any = llvm.icmp "slt" %begin, %end : i64
  llvm.cond_br %any, ^rtask(%begin : i64), ^end_of_copy
^rtask(%t: i64):
  llvm.call @{KERNEL}(%t{names}) : ({kinds}) -> ()
  llvm.inline_asm has_side_effects "", "~{{memory}}" : () -> ()
  %next = llvm.add %t, %one : i64
  %again = llvm.icmp "slt" %next, %end : i64
  llvm.cond_br %again, ^rtask(%next : i64), ^end_of_copy
^end_of_copy:
  %copy = llvm.add %c, %one : i64
  %other = llvm.getelementptr %own[{num_arguments}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  llvm.br ^copy(%copy, %other : i64, !llvm.ptr)
^end_of_round:
  %round = llvm.add %r, %one : i64
  llvm.br ^round(%round : i64)
^done:
  llvm.return
}}
"""

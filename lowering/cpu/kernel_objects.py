"""Objects of rKernels: found among those that are kept, or compiled beside the caller's work."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from rammer_mlir.lowering.cpu.separate_kernels import SeparateKernel
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import Machine


class ObjectStore(Protocol):
    """Objects of rKernels by identity."""

    def find(self, identities: Sequence[str]) -> Mapping[str, bytes]:
        """Return the objects of rKernels, as far as there are some."""
        ...

    def keep(self, objects: Mapping[str, bytes], seconds: float) -> None:
        """Keep objects that took some seconds of processor time together."""
        ...


@dataclass(frozen=True)
class _Compiled:
    """An object, and the seconds of processor time that LLVM took for it."""

    object: bytes
    seconds: float


def _compile(text: str, machine: Machine) -> _Compiled:
    begin = time.thread_time()
    made = emit_object(text, machine)
    return _Compiled(made, time.thread_time() - begin)


class KernelObjects:
    """The objects of a program's rKernels.

    The caller's thread lowers an rKernel from MLIR to LLVM IR, which takes about as long as LLVM
    takes to compile that. So a thread compiles one rKernel while the caller lowers the next one:
    calls of LLVM leave the interpreter's lock to others.
    """

    def __init__(self, machine: Machine, store: ObjectStore | None) -> None:
        """Begin without rKernels, for a machine; a store has objects of other programs."""
        self._machine, self._store = machine, store
        self._found: dict[str, bytes] = {}
        self._compiled: dict[str, Future[_Compiled]] = {}
        self._seconds = 0.0
        self._compiler = ThreadPoolExecutor(1, thread_name_prefix="rammer-objects")

    def begin(self, kernels: Sequence[SeparateKernel]) -> None:
        """Find the objects of rKernels, and begin to compile those that were not found.

        Raises:
            OperationError, TargetError: if an rKernel cannot be lowered.
        """
        distinct = {kernel.identity: kernel for kernel in kernels}
        if self._store is not None and distinct:
            self._found |= self._store.find(tuple(distinct))
        try:
            begin = time.thread_time()
            for identity, kernel in distinct.items():
                if identity not in self._found:
                    text = kernel.llvm_ir(self._machine)
                    future = self._compiler.submit(_compile, text, self._machine)
                    self._compiled[identity] = future
            self._seconds += time.thread_time() - begin
        except BaseException:
            self._cancel()
            raise

    def collect(self) -> tuple[bytes, ...]:
        """Return all objects, when they are compiled, and keep those that are new.

        Raises:
            TargetError: if LLVM refuses an rKernel's IR.
        """
        try:
            made = {identity: each.result() for identity, each in self._compiled.items()}
        finally:
            self._cancel()
        objects = {identity: each.object for identity, each in made.items()}
        if objects and self._store is not None:
            seconds = self._seconds + sum(each.seconds for each in made.values())
            self._store.keep(objects, seconds)
        return (*self._found.values(), *objects.values())

    def _cancel(self) -> None:
        """Compile none that is not begun."""
        self._compiler.shutdown(wait=False, cancel_futures=True)

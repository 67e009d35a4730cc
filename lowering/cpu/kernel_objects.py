"""Object files of rKernels: found in a cache, or compiled while other rKernels are lowered."""

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
    """A cache of rKernels' object files; a key is the ``identity`` of a ``SeparateKernel``."""

    def find(self, identities: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored object files by rKernel identity.

        Identities for which no object file is stored are not in the result.
        """
        ...

    def keep(self, objects: Mapping[str, bytes], seconds: float) -> None:
        """Store object files by rKernel identity.

        ``seconds`` is the processor time that LLVM took to compile all of them.
        """
        ...


@dataclass(frozen=True)
class _Compiled:
    """An object file, and the seconds of processor time that LLVM took for it."""

    object: bytes
    seconds: float


def _compile(text: str, machine: Machine) -> _Compiled:
    # Processor time of this thread, because other threads compile or lower meanwhile.
    begin = time.thread_time()
    made = emit_object(text, machine)
    return _Compiled(made, time.thread_time() - begin)


class KernelObjects:
    """The object files of a program's rKernels.

    The caller's thread lowers an rKernel from MLIR to LLVM IR, which takes about as long as LLVM
    takes to compile the result. So a second thread compiles an rKernel while the caller lowers the
    next: calls of LLVM release the interpreter's lock.
    """

    def __init__(self, machine: Machine, store: ObjectStore | None) -> None:
        """Begin without rKernels, for a target machine and a cache of object files, if any."""
        self._machine, self._store = machine, store
        self._found: dict[str, bytes] = {}
        self._compiled: dict[str, Future[_Compiled]] = {}
        self._seconds = 0.0
        self._compiler = ThreadPoolExecutor(1, thread_name_prefix="rammer-objects")

    def begin(self, kernels: Sequence[SeparateKernel]) -> None:
        """Look up the object files of rKernels in the cache, and begin to compile those not found.

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
        """Wait for the compilations, cache the new object files, and return all object files.

        Equal rKernels share an object file. The order is not that of the rKernels.

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
        """Cancel compilations that have not begun."""
        self._compiler.shutdown(wait=False, cancel_futures=True)

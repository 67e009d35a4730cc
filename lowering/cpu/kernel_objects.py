"""Gets object files of rKernels from a cache, or compiles rKernels in parallel with lowering."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from rammer_mlir.lowering.cpu.separate_kernels import SeparateKernel
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.llvm.object_compiler import ObjectCompiler
from rammer_mlir.lowering.llvm.object_messages import CompiledObject


class ObjectStore(Protocol):
    """A cache of rKernels' object files; a key is the ``identity`` of a ``SeparateKernel``."""

    def find(self, identities: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored object files by rKernel identity.

        Identities for which no object file is stored are not in the result.
        """
        ...

    def keep(self, objects: Mapping[str, bytes], seconds: float) -> None:
        """Store object files by rKernel identity.

        ``seconds`` is the processor time of lowering and compiling all rKernels in ``objects``.
        """
        ...


class KernelObjects:
    """The object files of a program's rKernels.

    The caller's thread lowers an rKernel from MLIR to LLVM IR, which takes about as long as LLVM
    takes to compile the result. So other processes, or a thread if there are few rKernels, compile
    an rKernel while the caller lowers the next.
    """

    def __init__(self, machine: Machine, store: ObjectStore | None) -> None:
        """Create an empty collection for a target machine; ``store`` is None for no cache."""
        self._machine, self._store = machine, store
        self._found: dict[str, bytes] = {}
        self._compiled: dict[str, Future[CompiledObject]] = {}
        self._seconds = 0.0
        self._compiler: ObjectCompiler | None = None

    def begin(self, kernels: Sequence[SeparateKernel]) -> None:
        """Look up the rKernels' object files in the cache, and begin to compile the missing ones.

        If an error occurs before ``collect`` returns, the caller has to call ``stop``.

        Raises:
            OperationError, TargetError: if an rKernel cannot be lowered.
        """
        distinct = {kernel.identity: kernel for kernel in kernels}
        if self._store is not None and distinct:
            self._found |= self._store.find(tuple(distinct))
        missing = {i: kernel for i, kernel in distinct.items() if i not in self._found}
        self._compiler = ObjectCompiler(self._machine, len(missing))
        begin = time.thread_time()
        for identity, kernel in missing.items():
            self._compiled[identity] = self._compiler.submit(kernel.llvm_ir(self._machine))
        self._seconds += time.thread_time() - begin

    def collect(self) -> tuple[bytes, ...]:
        """Complete the compilations, cache the new object files, and return all object files.

        Equal rKernels share an object file. The order of the object files is arbitrary.

        Raises:
            TargetError: if LLVM refuses an rKernel's IR.
        """
        assert self._compiler is not None, "begin comes first"
        try:
            self._compiler.help()
            made = {identity: each.result() for identity, each in self._compiled.items()}
        finally:
            self._compiler.stop()
        objects = {identity: each.object for identity, each in made.items()}
        if objects and self._store is not None:
            seconds = self._seconds + sum(each.seconds for each in made.values())
            self._store.keep(objects, seconds)
        return (*self._found.values(), *objects.values())

    def stop(self) -> None:
        """Cancel the compilations that have begun; called after an error."""
        if self._compiler is not None:
            self._compiler.stop()

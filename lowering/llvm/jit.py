"""Loads object files of native code into this process by LLVM's JIT, without a linker."""

from __future__ import annotations

import itertools
import sys

import llvmlite.binding as llvm

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.machine import LLVM_LOCK, initialize_llvm

_numbers = itertools.count()
_jits: list[llvm.LLJIT] = []


class Library:
    """Native code that is loaded into this process.

    The addresses of functions are valid as long as the library object lives: keep a reference to
    the library for as long as any of its functions may be called.
    """

    def __init__(self, jit: llvm.LLJIT, name: str, tracker: llvm.ResourceTracker) -> None:
        self._jit = jit
        self._name = name
        self._trackers = [tracker]

    def address(self, symbol: str) -> int:
        """Return the address of an exported function.

        Raises ``TargetError`` if the library does not define the function, or if a symbol that the
        library needs cannot be resolved.
        """
        with LLVM_LOCK:
            try:
                tracker = self._jit.lookup(self._name, symbol)
            except RuntimeError as error:
                raise TargetError(
                    f"native code: expected the symbol '{symbol}' to resolve, found "
                    f"'{str(error).strip()}'; this is a fault of the compiler, please report it"
                ) from error
        self._trackers.append(tracker)
        return int(tracker[symbol])


def load_object(object_file: bytes, *others: bytes) -> Library:
    """Load a relocatable object into this process, together with other objects that it calls.

    A symbol that none of the objects defines (libc, libm) resolves to a symbol of this process when
    an address is looked up. Raises ``TargetError`` if the objects cannot be loaded on this machine.
    """
    builder = llvm.JITLibraryBuilder().add_object_img(object_file)
    for other in others:
        builder = builder.add_object_img(other)
    builder = builder.add_current_process()
    name = f"rammer.{next(_numbers)}"
    with LLVM_LOCK:
        jit = _process_jit()
        try:
            tracker = builder.link(jit, name)
        except RuntimeError as error:
            raise TargetError(
                f"native code: expected an object for this machine, found '{str(error).strip()}'; "
                "compile it for this machine"
            ) from error
    return Library(jit, name, tracker)


def process_defines(symbol: str) -> bool:
    """Return whether this process, its libc or its libm defines ``symbol`` for loaded code."""
    with LLVM_LOCK:
        _process_jit()
        return bool(llvm.address_of_symbol(symbol))


def _process_jit() -> llvm.LLJIT:
    """Return this process's JIT; create it at the first call.

    The JIT is never closed, so it outlives every library.
    """
    if not _jits:
        initialize_llvm()
        if sys.platform == "linux":
            # Kernels may call libm, which the process need not have loaded.
            llvm.load_library_permanently("libm.so.6")
        _jits.append(llvm.create_lljit_compiler(use_jit_link=True))
    return _jits[0]

"""Lets vEUs call engine functions that are written in Python; a calling vEU holds the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import cast

from rammer_mlir.engines.host import OpenEntry
from rammer_mlir.support.failures import failure_text

_FAILED = 1

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


def python_entry(run: Callable[[int, Sequence[int]], None], num_buffers: int) -> OpenEntry:
    """Return the ``OpenEntry`` by which compiled code calls the Python function ``run``.

    If ``run`` raises an exception, the model's run fails with an error that quotes the exception.

    Args:
        run: computes an rTask, given the rTask's id and the addresses of all buffers: inputs,
            outputs, and scratch memory if the foreign code requires scratch memory.
        num_buffers: count of buffers.
    """
    failures: list[str] = []

    def call(_state: int, rtask: int, buffers: int) -> int:
        try:
            found = (ctypes.c_void_p * num_buffers).from_address(buffers)
            # ctypes reads a null pointer as None.
            result = cast("object", run(rtask, [address or 0 for address in found]))
            if result is not None:
                raise TypeError(f"expected the function to return None, found {result!r}")
        except BaseException as error:  # it must not unwind through a vEU's native frames
            failures[:] = [failure_text(error)]
            return _FAILED
        return 0

    def explain() -> str:
        found = failures[-1] if failures else ""
        failures.clear()
        return f"'{found}'" if found else ""

    callback = _RUN(call)
    function = ctypes.cast(callback, ctypes.c_void_p).value or 0
    return OpenEntry(function, 0, lambda: None, callback, explain)

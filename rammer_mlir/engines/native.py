"""Opens stateful functions of code linked into the program: C source, LLVM IR, objects.

In C, a stateful function ``NAME`` consists of three functions::

    struct rammer_host {
      int32_t version;               /* 1 */
      int32_t num_buffers;
      void *const *weights;         /* of each buffer: its memory if it is a weight, else null */
      void *(*find)(const char *);  /* a function of the module's libraries, or null */
    };
    int32_t NAME_open(void **state, const struct rammer_host *host);
    int32_t NAME_run(void *state, int64_t rtask, void *const *buffers);
    void NAME_close(void *state);

``NAME_open`` runs once, on one thread, before the first run. Several threads may run ``NAME_run``
at the same time with the same state. A result of 0 means success. ``*host`` is valid until
``NAME_open`` returns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError

_VERSION = 1

FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
"""The C type of ``find`` in ``struct rammer_host``."""


class HostRecord(ctypes.Structure):
    """The C interface's ``struct rammer_host``, the argument of ``NAME_open``."""

    _fields_: ClassVar = [
        ("version", ctypes.c_int32),
        ("num_buffers", ctypes.c_int32),
        ("weights", ctypes.POINTER(ctypes.c_void_p)),
        ("find", FIND),
    ]


def open_native(host: EntryHost, opening: int, run: int, closing: int) -> OpenEntry:
    """Create the state of a stateful function in linked code by calling ``NAME_open``.

    Args:
        host: describes the function; passed to ``NAME_open`` as ``struct rammer_host``.
        opening: address of ``NAME_open``.
        run: address of ``NAME_run``.
        closing: address of ``NAME_close``.

    Returns:
        ``NAME_run``, and the state to pass to it.

    Raises:
        TargetError: if ``NAME_open`` fails.
    """
    state = ctypes.c_void_p()
    count = len(host.weights)
    weights = (ctypes.c_void_p * max(count, 1))(*host.weights)
    find = FIND(partial(_found, host.find))
    described = HostRecord(_VERSION, count, weights, find)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(opening)
    status = function(ctypes.addressof(state), ctypes.addressof(described))
    if status:
        raise TargetError(
            f"module '{host.module.name}': expected '{host.symbol}_open' to return 0, found "
            f"{status}; the program cannot run here"
        )
    close = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(closing)
    return OpenEntry(run, state.value or 0, partial(close, state.value))


def _found(find: Callable[[str], int], symbol: bytes) -> int:
    return find(symbol.decode(errors="replace"))

"""Loads shared libraries into this process, and unmaps each after its last use."""

from __future__ import annotations

import ctypes
import weakref

_dlclose = ctypes.CDLL(None).dlclose
_dlclose.argtypes = (ctypes.c_void_p,)
_dlclose.restype = ctypes.c_int


class SharedLibrary:
    """A shared library, unmapped when this object is garbage-collected.

    Keep a reference to the object as long as addresses from the library are in use.
    """

    def __init__(self, path: str) -> None:
        """Load the shared library in the file ``path``; the file may be removed afterwards.

        Raises:
            OSError: if the system refuses it.
        """
        self._library = ctypes.CDLL(path)
        handle: int = self._library._handle  # pyright: ignore[reportPrivateUsage]
        unmapping = weakref.finalize(self, _dlclose, handle)
        unmapping.atexit = False  # daemon threads may run its code at exit

    def address(self, symbol: str) -> int:
        """Return the address of an exported function.

        Raises:
            AttributeError: if the library has no such symbol.
        """
        return ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value or 0

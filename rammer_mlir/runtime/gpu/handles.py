"""Owns streams and kernels of a vendor's driver, and releases those that are not referenced."""

from __future__ import annotations

import weakref
from collections.abc import Callable


class Handle:
    """An object of a vendor's bindings that is released when it is no longer referenced."""

    def __init__(self, native: object, release: Callable[..., object], *arguments: object) -> None:
        """Own the bindings' object ``native``, which ``release(*arguments)`` releases."""
        self.native = native
        finalizer = weakref.finalize(self, release, *arguments)
        finalizer.atexit = False  # the driver releases everything at exit


class Kernel(Handle):
    """A kernel whose module is unloaded when the kernel is no longer referenced.

    Attributes:
        streams: the streams on which the kernel was launched; the module is unloaded after their
            work.
    """

    def __init__(
        self, native: object, unload: Callable[[object, set[Handle]], None], module: object
    ) -> None:
        """Own the module of the kernel ``native``; ``unload(module, streams)`` unloads it."""
        self.streams: set[Handle] = set()
        super().__init__(native, unload, module, self.streams)


def native_of(value: object) -> object:
    """Return the bindings' object of a handle; other values are returned unchanged."""
    return value.native if isinstance(value, Handle) else value

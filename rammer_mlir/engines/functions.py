"""Calls C functions by address from Python, while a module is opened or closed."""

from __future__ import annotations

import ctypes

Argument = int | bytes | None
"""A pointer, an integer, or bytes that the called function reads during the call."""


def call_function(address: int, *arguments: Argument) -> int:
    """Call a C function, and return its result, a pointer or 64-bit integer.

    The result is 0 if the function returns null or nothing.
    """
    kinds = [ctypes.c_void_p] * len(arguments)
    return ctypes.CFUNCTYPE(ctypes.c_void_p, *kinds)(address)(*arguments) or 0


def call_for_status(address: int, *arguments: Argument) -> int:
    """Call a C function that returns a signed 32-bit number, and return this number."""
    kinds = [ctypes.c_void_p] * len(arguments)
    return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)(*arguments)


def text_at(address: int) -> str:
    """Return the C string at an address as one line."""
    return " ".join(ctypes.string_at(address).decode(errors="replace").split())

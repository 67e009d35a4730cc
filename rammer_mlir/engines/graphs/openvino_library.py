"""Calls OpenVINO's C functions by name."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack

from rammer_mlir.engines.functions import Argument, call_for_status, call_function, text_at


class OpenVinoError(Exception):
    """The library's message about a failed call, in one line."""


class OpenVinoLibrary:
    """The functions of OpenVINO's library."""

    def __init__(self, find: Callable[[str], int]) -> None:
        """Store ``find``, a function that returns the address of a symbol, 0 if there is none."""
        self._find = find

    def address(self, function: str) -> int:
        """Return the address of the C function ``ov_{function}``.

        Raises:
            OpenVinoError: if the library lacks it.
        """
        found = self._find(f"ov_{function}")
        if not found:
            raise OpenVinoError(f"no function ov_{function}")
        return found

    def call(self, function: str, *arguments: Argument) -> None:
        """Call the function ``ov_{function}``, which must return a status.

        Raises:
            OpenVinoError: if the status is an error.
        """
        status = call_for_status(self.address(function), *arguments)
        if status:
            raise OpenVinoError(self.message_of(status))

    def make(self, function: str, *arguments: Argument, behind: tuple[Argument, ...] = ()) -> int:
        """Call ``ov_{function}``, which creates an object; return the object's address.

        ``arguments`` are the arguments before the pointer to the result, ``behind`` those after it.

        Raises:
            OpenVinoError: if it fails.
        """
        made = ctypes.c_uint64()
        self.call(function, *arguments, ctypes.addressof(made), *behind)
        return made.value

    def message_of(self, status: int) -> str:
        """Return the library's text for an error status, and its message about the last failure."""
        number = ctypes.c_int32(status).value
        name = text_at(call_function(self.address("get_error_info"), number))
        last = call_function(self.address("get_last_err_msg"))
        message = text_at(last) if last else ""
        call_function(self.address("free"), last)
        return f"{name}: {message}" if message else name


def make(
    library: OpenVinoLibrary,
    made: ExitStack,
    create: str,
    free: str,
    *given: Argument,
    behind: tuple[Argument, ...] = (),
) -> int:
    """Create an object by the function ``ov_{create}``, and return its address.

    Closing the stack ``made`` frees the object by ``ov_{free}``. ``given`` are the arguments before
    the pointer to the result, ``behind`` those after it.

    Raises:
        OpenVinoError: if the function fails.
    """
    found = library.make(create, *given, behind=behind)
    made.callback(call_function, library.address(free), found)
    return found

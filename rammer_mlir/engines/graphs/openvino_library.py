"""Calls functions of OpenVINO's C API by name."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack

from rammer_mlir.engines.functions import Argument, call_for_status, call_function, text_at


class OpenVinoError(Exception):
    """OpenVINO's message about a failed call, in one line."""


class OpenVinoLibrary:
    """OpenVINO's shared library: the functions of its C API."""

    def __init__(self, find: Callable[[str], int]) -> None:
        """Store ``find``, which returns the address of a library's symbol, 0 if there is none."""
        self._find = find

    def address(self, function: str) -> int:
        """Return the address of the C function ``ov_{function}``.

        Raises:
            OpenVinoError: if the library lacks the function.
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

        ``arguments`` precede the pointer to the result, ``behind`` follow it.

        Raises:
            OpenVinoError: if the function fails.
        """
        made = ctypes.c_uint64()
        self.call(function, *arguments, ctypes.addressof(made), *behind)
        return made.value

    def message_of(self, status: int) -> str:
        """Return OpenVINO's text for the error code ``status``, and the last error message."""
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
    """Create an object by the function ``ov_{create}``, and return the object's address.

    Closing ``made`` frees the object by ``ov_{free}``. Of the arguments of ``ov_{create}``,
    ``given`` precede the pointer to the result, and ``behind`` follow it.

    Raises:
        OpenVinoError: if the function fails.
    """
    found = library.make(create, *given, behind=behind)
    made.callback(call_function, library.address(free), found)
    return found

"""Calls functions of ONNX Runtime's C API, whose addresses are in the library's function table.

A newer version of the library only appends functions to the table; earlier indices stay valid.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum

from rammer_mlir.engines.functions import Argument, call_function, text_at

API_VERSION = 12
"""Version of the table that is requested; a library that does not support it returns null."""


class Function(IntEnum):
    """Indices of functions in ONNX Runtime's function table, in all versions of the table.

    Version 1 of the table has 102 functions, version 5 has 150.
    """

    GET_ERROR_MESSAGE = 2
    CREATE_ENV = 3
    CREATE_SESSION_FROM_ARRAY = 8
    CREATE_SESSION_OPTIONS = 10
    SET_SESSION_GRAPH_OPTIMIZATION_LEVEL = 23
    SET_INTRA_OP_NUM_THREADS = 24
    SET_INTER_OP_NUM_THREADS = 25
    CREATE_RUN_OPTIONS = 39
    RUN_OPTIONS_SET_TERMINATE = 46
    RUN_OPTIONS_UNSET_TERMINATE = 47
    CREATE_TENSOR_WITH_DATA = 49
    CREATE_CPU_MEMORY_INFO = 69
    RELEASE_ENV = 92
    RELEASE_STATUS = 93
    RELEASE_MEMORY_INFO = 94
    RELEASE_SESSION = 95
    RELEASE_VALUE = 96
    RELEASE_RUN_OPTIONS = 97
    RELEASE_SESSION_OPTIONS = 100
    RUN_WITH_BINDING = 133
    CREATE_IO_BINDING = 134
    RELEASE_IO_BINDING = 135
    BIND_INPUT = 136
    BIND_OUTPUT = 137


class OrtError(Exception):
    """ONNX Runtime's message about a failed call, in one line."""


class OrtLibrary:
    """ONNX Runtime's shared library: the functions of its C API."""

    def __init__(self, find: Callable[[str], int]) -> None:
        """Get the function table from the library.

        ``find`` returns the address of a symbol of the library, 0 if there is none.

        Raises:
            OrtError: if the library does not support version ``API_VERSION`` of the table.
        """
        base = find("OrtGetApiBase")
        if not base:
            raise OrtError("no function OrtGetApiBase")
        get_table, get_version = _words(call_function(base), 2)
        self.version = text_at(call_function(get_version))
        table = call_function(get_table, API_VERSION)
        if not table:
            raise OrtError(f"version {self.version}, without functions of version {API_VERSION}")
        self._table = _words(table, max(Function) + 1)

    def address(self, function: Function) -> int:
        """Return the address of a function in ONNX Runtime's table of functions."""
        return self._table[function]

    def call(self, function: Function, *arguments: Argument) -> None:
        """Call a function that returns an ``OrtStatus``, and check this status.

        ``function`` is the function's index in ONNX Runtime's function table; ``arguments`` are all
        of the function's arguments.

        Raises:
            OrtError: if the status is an error.
        """
        status = call_function(self.address(function), *arguments)
        if status:
            raise OrtError(self.take_message(status))

    def make(self, function: Function, *arguments: Argument) -> int:
        """Call a function of the table that creates an object; return the object's address.

        ``arguments`` are the function's arguments without its last one, the pointer to the result.

        Raises:
            OrtError: if the function returns an error.
        """
        made = ctypes.c_uint64()
        self.call(function, *arguments, ctypes.addressof(made))
        return made.value

    def take_message(self, status: int) -> str:
        """Return the message of the ``OrtStatus`` at address ``status``, and free the status."""
        message = text_at(call_function(self.address(Function.GET_ERROR_MESSAGE), status))
        call_function(self.address(Function.RELEASE_STATUS), status)
        return message


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))

"""Builds lists of C function calls that a vEU executes without the Python interpreter.

A compiled program contains the function ``RUN_CALLS``, which executes such a list. An engine that
uses a list returns an ``OpenEntry`` with this function, and with the list's address as the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.native_interface import BOUND, CALL, CALL_ARGUMENTS, CALL_LIST
from rammer_mlir.support.aligned import address_of, aligned_bytes

ANY_BIT = (1 << 64) - 1
"""``Call.mask`` for a 64-bit result, a pointer or number, that indicates failure unless it is 0."""

LOW_HALF = (1 << 32) - 1
"""``Call.mask`` for a 32-bit result, whose upper bits are undefined, that is nonzero on failure."""


@dataclass(frozen=True)
class Word:
    """An argument of a ``Call`` that is read from memory, a 64-bit word, when the call is executed.

    Attributes:
        address: address of the word.
        is_taken: whether the word is set to 0 after it has been passed, because the callee takes
            ownership.
    """

    address: int
    is_taken: bool = False


@dataclass(frozen=True)
class Call:
    """A call of a C function.

    Attributes:
        function: address of the function.
        arguments: at most ``CALL_ARGUMENTS`` pointers and integers. A ``Word`` stands for the
            content of a word in memory.
        mask: bits of the function's result. The call has failed if any of these bits is set; with
            the mask 0, the call never fails.
    """

    function: int
    arguments: Sequence[int | Word]
    mask: int = 0


@dataclass(frozen=True)
class Bound:
    """A buffer that the calls of a list bind to an object of a library.

    The first run binds the buffer. A later run binds it again if its address has changed, unless
    ``copied_bytes`` is set.

    Attributes:
        bind: returns the calls that bind the buffer, given a word that contains the buffer's
            address.
        is_output: whether the run writes the buffer.
        copied_bytes: 0 to bind the buffer again whenever its address changes. Else the buffer's
            size in bytes: if the address changes, memory of the list is bound instead of the
            buffer, and each run copies the buffer to or from this memory.
    """

    bind: Callable[[Word], Sequence[Call]]
    is_output: bool = False
    copied_bytes: int = 0


class CallList:
    """The C calls that one run of a function executes, in memory that compiled code reads.

    ``calls`` are the calls that compute. If the address of a buffer has changed, the calls that
    bind this buffer are executed first.
    """

    def __init__(self, calls: Sequence[Call], bound: Mapping[int, Bound]) -> None:
        """Store the calls in memory, in the layout ``CALL_LIST`` that compiled code reads.

        Args:
            calls: the calls that compute.
            bound: buffers to bind, by buffer index: inputs first, then outputs.
        """
        self.calls = tuple(calls)
        self._kept: list[object] = []
        self._head: Any = np.zeros(1, CALL_LIST)
        rows: Any = np.zeros(len(bound), BOUND)
        for number, (buffer, each) in enumerate(bound.items()):
            word = Word(rows["address"][number:].ctypes.data)
            self._bind(rows[number], buffer, each, self._rows(each.bind(word)))
        self._enter("bound", rows)
        self._enter("calls", self._rows(calls))

    @property
    def address(self) -> int:
        """The list's address, which compiled code passes to ``RUN_CALLS`` as the state."""
        return address_of(self._head)

    def take_status(self) -> int:
        """Return the status that the last failed call returned, and clear it.

        The result is 0 if no call has failed since the status was last cleared.
        """
        found = int(self._head["status"][0])
        self._head["status"] = 0
        return found

    def _bind(self, row: Any, buffer: int, bound: Bound, calls: NDArray[np.void]) -> None:
        row["buffer"], row["is_output"], row["size"] = buffer, bound.is_output, bound.copied_bytes
        row["num_calls"], row["calls"] = len(calls), address_of(calls)
        if bound.copied_bytes:
            memory = aligned_bytes(bound.copied_bytes)
            row["memory"] = address_of(memory)
            self._kept.append(memory)

    def _enter(self, name: str, rows: NDArray[np.void]) -> None:
        self._head[f"num_{name}"], self._head[name] = len(rows), address_of(rows)
        self._kept.append(rows)

    def _rows(self, calls: Sequence[Call]) -> NDArray[np.void]:
        rows: Any = np.zeros(len(calls), CALL)
        for row, call in zip(rows, calls, strict=True):
            _write(row, call)
        self._kept.append(rows)
        return rows


def _write(row: Any, call: Call) -> None:
    assert len(call.arguments) <= CALL_ARGUMENTS, "more arguments than a call can have"
    row["function"], row["mask"] = call.function, call.mask
    for number, argument in enumerate(call.arguments):
        if isinstance(argument, Word):
            row["arguments"][number] = argument.address
            row["loaded"] |= 1 << number
            row["taken"] |= argument.is_taken << number
        else:
            row["arguments"][number] = argument

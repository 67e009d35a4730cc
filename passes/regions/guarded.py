"""Calls plug-in code, and turns its exceptions into errors with a message of one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rammer_mlir.errors import PassError, RammerError
from rammer_mlir.support.failures import FAILURES, failure_text

T = TypeVar("T")


def guarded(expected: str, call: Callable[[], T], advice: str) -> T:
    """Return the result of a plug-in's function; turn an exception into an error of one line.

    The message is ``EXPECTED, found PROBLEM; ADVICE``, with the exception's text as ``PROBLEM``.
    A `RammerError` passes through unchanged.

    Args:
        expected: start of the message: the name of the plug-in's function or table, and what it
            is expected to do.
        call: the plug-in's function.
        advice: end of the message, which tells the user how to proceed.

    Raises:
        PassError: if ``call`` raises an exception or calls ``sys.exit``.
    """
    try:
        return call()
    except RammerError:
        raise
    except FAILURES as error:
        raise PassError(f"{expected}, found {failure_text(error)}; {advice}") from error

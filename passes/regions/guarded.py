"""Guarded calls of plug-in code, whose exceptions become errors of one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rammer_mlir.errors import PassError, RammerError

T = TypeVar("T")


def guarded(expected: str, call: Callable[[], T], advice: str) -> T:
    """Return the result of a function of a plug-in; an exception becomes an error of one line.

    The message is ``EXPECTED, found PROBLEM; ADVICE``.

    Args:
        expected: the begin of the message, which names the failing part and the expectation.
        call: the function.
        advice: the end of the message, which tells the user how to proceed.

    Raises:
        PassError: if the call fails.
    """
    try:
        return call()
    except RammerError:
        raise
    except (Exception, SystemExit) as error:  # a plug-in does not end the tool
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        raise PassError(f"{expected}, found {problem}; {advice}") from error

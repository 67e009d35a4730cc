"""Calls of what a code generator brings along, whose errors become lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rammer_mlir.errors import PassError, RammerError

T = TypeVar("T")


def guarded(expected: str, call: Callable[[], T], advice: str) -> T:
    """Call a function from outside; an exception becomes an error of one line.

    Args:
        expected: how the line begins, up to what was expected.
        call: the function.
        advice: how the line ends.

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

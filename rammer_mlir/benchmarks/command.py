"""Report errors of the benchmark commands as one line, without a traceback."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

from rammer_mlir.errors import RammerError

_Arguments = ParamSpec("_Arguments")


def one_line_errors(main: Callable[_Arguments, int]) -> Callable[_Arguments, int]:
    """Return a wrapper of the command ``main`` that reports a RammerError without a traceback.

    The wrapper prints the error as one line on standard error, and returns exit code 1.
    """

    @functools.wraps(main)
    def command(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except RammerError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1

    return command

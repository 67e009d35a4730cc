"""Issues warnings, each with the line of the user's program that causes the warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_PACKAGE = f"{Path(__file__).parent.parent}/"


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn with ``message`` at the line of the innermost caller outside of this package.

    Python shows the warning once for each line.
    """
    level, frame = 1, sys._getframe()  # pyright: ignore[reportPrivateUsage]
    # From Python 3.12 on, skip_file_prefixes does this.
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def shown_in_one_line(category: type[Warning]) -> Generator[None]:
    """Within the block, print warnings of a category as ``warning: ...``, without source lines."""
    before = warnings.showwarning

    def show(
        message: Warning | str,
        kind: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(kind, category):
            before(message, kind, filename, lineno, file, line)
        elif sys.stderr is not None:  # None if the shell closed it
            print("warning:", " ".join(str(message).split()), file=sys.stderr)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before

"""Read and write the results of a kit: a line of JSON for each case."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from rammer_mlir.errors import OptionError


class Status(StrEnum):
    """The outcome of a case: passed ("ok"), or the kind of its failure."""

    OK = "ok"
    WRONG = "wrong"
    FAILED = "failed"
    CRASHED = "crashed"
    HUNG = "hung"
    ABSENT = "absent"
    """A package or tool that only this case needs is not installed."""


FINE = (Status.OK, Status.ABSENT)

Result = dict[str, Any]


def append_result(path: Path, result: Mapping[str, Any]) -> None:
    """Append a case's result as a line of JSON to the file ``path``, and flush it to disk."""
    with path.open("a+b") as file:
        # A machine that stopped may have left an incomplete line: its case runs again.
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(result).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_results(path: Path) -> dict[str, Result]:
    """Return the last result of each case in the file ``path``, by the case's name.

    If there is no file, the returned dictionary is empty. An incomplete last line is ignored, so
    that its case runs again.

    Raises:
        OptionError: if the file cannot be read, or has a line that is not a case's result.
    """
    if not path.exists():
        return {}
    found: dict[str, Result] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines):
            if not line:
                continue
            try:
                result = json.loads(line)
                found[result["case"]] = result
            except (ValueError, KeyError, TypeError):
                if number < len(lines) - 1:
                    raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"'{path}': expected results of a kit, a line of JSON for each case, found none that "
            f"can be read ({error}); name another file"
        ) from error
    return found

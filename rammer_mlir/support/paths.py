"""Converts the paths that callers of the API pass, and refuses invalid paths."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from rammer_mlir.errors import OptionError


def is_same_file(a: str, b: str) -> bool:
    """Return whether two paths lead to the same place; there need not be a file."""
    return Path(a).resolve() == Path(b).resolve()


def path_of(given: object, what: str) -> Path:
    """Return ``given``, a string or a path object, as a ``Path``.

    ``what`` names the use of the path in messages.

    Raises:
        OptionError: if ``given`` is not a path, is empty, or has an invalid character.
    """
    try:
        path = Path(cast(str, given))  # raises a TypeError unless it is a path
    except TypeError:
        path = None
    if path is None or given == "" or "\0" in str(path):
        raise OptionError(f"{what}: expected the path of a file, found {given!r}")
    return path

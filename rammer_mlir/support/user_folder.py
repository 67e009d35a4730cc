"""Finds the folder of this package's files for the user, such as the cache."""

from __future__ import annotations

import os
from pathlib import Path


def user_folder() -> Path:
    """Return the folder ``rammer-mlir`` in ``XDG_CACHE_HOME``, or in ``~/.cache`` if that is unset.

    Raises:
        RuntimeError: if the user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rammer-mlir"

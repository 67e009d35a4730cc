"""Finds the folder in which this package keeps files for the user, such as the compile cache."""

from __future__ import annotations

import os
from pathlib import Path


def user_folder() -> Path:
    """Return the folder ``rammer-mlir`` in ``XDG_CACHE_HOME``, or in ``~/.cache`` if that is unset.

    Raises:
        RuntimeError: if the home folder of the user cannot be determined.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rammer-mlir"

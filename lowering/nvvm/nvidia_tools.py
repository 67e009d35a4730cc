"""Finds NVIDIA's tools and libraries, in PATH or in NVIDIA's Python packages."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path


def find_tool(name: str) -> str | None:
    """Return the path of the tool ``name`` in PATH or NVIDIA's packages; None if not found."""
    return shutil.which(name) or next(iter(in_packages(f"*/bin/{name}")), None)


def in_packages(pattern: str) -> list[str]:
    """Return the sorted paths in NVIDIA's Python packages that match a glob pattern."""
    found = importlib.util.find_spec("nvidia")
    folders = (found.submodule_search_locations or []) if found else []
    return [str(path) for folder in folders for path in sorted(Path(folder).glob(pattern))]

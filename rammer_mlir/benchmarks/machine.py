"""Collect properties of this machine for reports, and format Markdown tables."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("rammer-mlir", "torch-mlir", "llvmlite", "onnx", "numpy", "onnxruntime", "openvino",
            "iree-base-compiler", "torch")  # fmt: skip


def machine() -> dict[str, str | int | None]:
    """Return properties of this machine by name: date, processor, cores, system, package versions.

    The version of a package that is not installed is None, as is an unknown number of cores.
    """
    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heading, *body = (
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    )
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([heading, rule, *body])

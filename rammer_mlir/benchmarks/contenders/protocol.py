"""Define the interface of contenders, the implementations that can run a model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.errors import TargetError


class Contender(Protocol):
    """An opened model; it can run any number of times."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once on ``feeds``, inputs by name; return the outputs by name."""
        ...


class Open(Protocol):
    """A function or class that opens a model, for example loads and compiles it."""

    def __call__(self, model: Path, threads: int) -> Contender:
        """Open an ONNX file for a number of threads, and return the contender.

        The ONNX file is alone in its folder; a contender may write other files there.
        """
        ...


BENCH = "rammer-mlir[bench]"


def required(module: str, install: str = BENCH) -> ModuleType:
    """Import and return ``module`` of an optional package.

    ``install`` is the argument of pip that installs the package.

    Raises:
        TargetError: if the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TargetError(
            f"expected the module '{module}', found '{error}'; pip install '{install}'"
        ) from error

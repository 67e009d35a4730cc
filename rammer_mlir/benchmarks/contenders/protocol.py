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
    """A model that an implementation has loaded; it can run any number of times."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once on ``feeds``, inputs by name; return the outputs by name."""
        ...


class Open(Protocol):
    """A function or class that loads a model into an implementation, usually compiling it."""

    def __call__(self, model: Path, threads: int) -> Contender:
        """Load an ONNX file, to run with ``threads`` threads, and return the loaded model.

        The folder of the ONNX file has no other files; the implementation may write files there.
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

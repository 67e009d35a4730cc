"""What a benchmark needs of a way to run a model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.errors import TargetError


class Contender(Protocol):
    """A model that was opened to be run, as often as one likes, on one input after the other."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once, on arrays by input name; return the outputs by name."""
        ...


class Open(Protocol):
    """Opens a model; what that costs is not part of a run."""

    def __call__(self, model: Path, threads: int) -> Contender:
        """Open an ONNX file that lies in a folder of its own, for a number of threads."""
        ...


BENCH = "rammer-mlir[bench]"


def required(module: str, install: str = BENCH) -> ModuleType:
    """Import a module of a package that not everybody has; ``install`` is what pip installs.

    Raises:
        TargetError: if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TargetError(
            f"expected the module '{module}', found '{error}'; pip install '{install}'"
        ) from error

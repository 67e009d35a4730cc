"""Finds the optional package torch, and recognizes its models."""

from __future__ import annotations

import functools
import re
import sys
from types import ModuleType
from typing import Any, Protocol

from rammer_mlir.errors import MissingPackageError
from rammer_mlir.support.packages import optional_package


class _Module(Protocol):
    """The attributes of a ``torch.nn.Module`` that the compiler uses.

    This type allows type checking without torch.
    """

    training: bool

    def eval(self) -> Any:
        """Set the module to evaluation mode."""
        ...


class _Program(Protocol):
    """The attributes of a ``torch.export.ExportedProgram`` that the compiler uses.

    This type allows type checking without torch.
    """

    @property
    def graph_signature(self) -> Any:
        """Inputs and outputs of the program."""
        ...


TorchModule = _Module | _Program
"""A PyTorch module, or an exported program."""

_OLDEST = (2, 13)

_ADVICE = "install it with 'pip install \"rammer-mlir[torch]\"'"


@functools.cache
def pytorch() -> ModuleType:
    """Import and return torch.

    Raises:
        MissingPackageError: if torch is not installed, or too old.
    """
    torch = optional_package("torch", "a model of PyTorch", _ADVICE)
    found = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
    if found < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise MissingPackageError(
            f"a model of PyTorch: expected torch {oldest} or newer, found {torch.__version__}; "
            f"{_ADVICE}",
            name="torch",
        )
    return torch


def is_pytorch_model(given: object) -> bool:
    """Whether a value is a PyTorch module or exported program; does not import torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "export"):
        return False
    return isinstance(given, torch.nn.Module | torch.export.ExportedProgram)

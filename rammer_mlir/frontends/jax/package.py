"""Finds the optional package jax, and recognizes functions that it lowered."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

from rammer_mlir.errors import MissingPackageError
from rammer_mlir.support.packages import optional_package

_OLDEST = (0, 10)

_ADVICE = "install it with 'pip install \"rammer-mlir[jax]\"'"


class LoweredFunction(Protocol):
    """The methods of a ``jax.stages.Lowered``, as a type for type checkers without JAX."""

    def compiler_ir(self, dialect: str | None = None, *, debug_info: bool = ...) -> Any | None:
        """Return the IR of the function, for example an MLIR module; None if JAX has no such IR.

        ``dialect`` names the kind of IR, such as ``stablehlo``; None stands for JAX's default.
        ``debug_info`` tells whether the IR has source locations.
        """
        ...

    def cost_analysis(self) -> Mapping[str, Any] | Any | None:
        """Return JAX's cost estimate by property, such as ``flops``; None if JAX gives none."""
        ...


@functools.cache
def jax_package() -> ModuleType:
    """Import and return jax.

    Raises:
        MissingPackageError: if jax is not installed, or too old.
    """
    jax = optional_package("jax", "a function of JAX", _ADVICE)
    if jax.__version_info__[:2] < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise MissingPackageError(
            f"a function of JAX: expected jax {oldest} or newer, found {jax.__version__}; "
            f"{_ADVICE}",
            name="jax",
        )
    return jax


def is_lowered_function(given: object) -> bool:
    """Whether a value is a function that JAX lowered; does not import jax."""
    stages = sys.modules.get("jax.stages")
    return stages is not None and isinstance(given, stages.Lowered)

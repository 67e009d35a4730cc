"""What makes the specialisations of a model with open dimensions."""

from __future__ import annotations

from typing import Protocol

from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.runtime.compiled import CompiledModel


class Specializer(Protocol):
    """Makes one program after the other: compiles it, or takes it from an artifact."""

    @property
    def target(self) -> str:
        """The target of all programs."""
        ...

    @property
    def policy(self) -> str | None:
        """The policy of all programs; None if that is not known."""
        ...

    @property
    def num_veus(self) -> int:
        """The vEUs of all programs."""
        ...

    def make(self, shapes: Shapes) -> CompiledModel:
        """Return the program for inputs of these shapes.

        Raises:
            RammerError: if there can be none.
        """
        ...

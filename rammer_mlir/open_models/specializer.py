"""Defines the interface of objects that supply the specializations of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.runtime.compiled import Array, RunnableModel


class Specializer(Protocol):
    """Supplies the program for given input shapes: compiles it, or reads it from an artifact."""

    @property
    def target(self) -> str:
        """The target of all programs."""
        ...

    @property
    def policy(self) -> str | None:
        """The policy of all programs; None if unknown."""
        ...

    @property
    def num_veus(self) -> int:
        """Number of vEUs of each program."""
        ...

    @property
    def makes_new(self) -> bool:
        """Whether programs for new input shapes can be compiled.

        If False, only the programs of an artifact exist.
        """
        ...

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> RunnableModel:
        """Return the program for given input shapes.

        Args:
            shapes: shape of each input, by name.
            values: arrays of the inputs whose elements determine shapes, by name.

        Raises:
            RammerError: if the program cannot be compiled, or the artifact lacks it.
        """
        ...


@dataclass(frozen=True)
class Made:
    """Settings that all programs of a model are compiled with.

    Attributes:
        target: for example ``cpu`` or ``nvvm:sm_90``.
        policy: name of the policy that schedules each program; None if unknown.
        num_veus: number of vEUs that run each program.
    """

    target: str
    policy: str | None
    num_veus: int

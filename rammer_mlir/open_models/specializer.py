"""What makes the specialisations of a model with open dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.runtime.compiled import Array, RunnableModel


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

    @property
    def makes_new(self) -> bool:
        """Whether it makes what nobody has asked for before."""
        ...

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> RunnableModel:
        """Return what runs inputs of these shapes, with these values of its shape values.

        Raises:
            RammerError: if there can be none.
        """
        ...


@dataclass(frozen=True)
class Made:
    """What all programs of a model are compiled for.

    Attributes:
        target: ``cpu``, ``nvvm:sm_90``.
        policy: name of the policy that schedules each program; None if that is not known.
        num_veus: vEUs that run each program.
    """

    target: str
    policy: str | None
    num_veus: int

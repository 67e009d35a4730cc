"""Defines the properties that all specialisations of a model share."""

from __future__ import annotations

from rammer_mlir.compiler.options import CheckedOptions


class ProgramFacts:
    """Properties that a program has by its options alone, such as its target and number of vEUs."""

    options: CheckedOptions

    @property
    def target(self) -> str:
        """The target of all programs, in the form of the ``--target`` option."""
        return self.options.backend.target

    @property
    def policy(self) -> str:
        """The name of the scheduling policy of all programs."""
        return self.options.policy

    @property
    def num_veus(self) -> int:
        """Number of vEUs of all programs."""
        return self.options.launched_veus

    @property
    def makes_new(self) -> bool:
        """Always True: programs can be compiled for any shapes."""
        return True

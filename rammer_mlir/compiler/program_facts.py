"""Defines the properties that all specializations of a model share."""

from __future__ import annotations

from rammer_mlir.compiler.options import CheckedOptions


class ProgramFacts:
    """Properties of a program that its options alone determine, such as target and vEUs."""

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
        """Whether the model can compile programs for new shapes; always True."""
        return True

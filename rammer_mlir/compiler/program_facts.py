"""Facts that hold for every program of one compiler of specialisations."""

from __future__ import annotations

from rammer_mlir.compiler.options import CheckedOptions


class ProgramFacts:
    """Facts about programs that follow from the options of their compilations."""

    options: CheckedOptions

    @property
    def target(self) -> str:
        """The target of all programs."""
        return self.options.backend.target

    @property
    def policy(self) -> str:
        """The policy of all programs."""
        return self.options.policy

    @property
    def num_veus(self) -> int:
        """The vEUs of all programs."""
        return self.options.launched_veus

    @property
    def makes_new(self) -> bool:
        """Whether programs are compiled for any shapes."""
        return True

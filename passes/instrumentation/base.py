"""Defines the hooks that a pass pipeline calls before and after each pass."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class WatchedPass:
    """A pass of a running pipeline.

    Attributes:
        number: the pass's index in the pipeline, from 0.
        text: the pass in pipeline syntax, with its options and nested in the operations on which it
            runs, as in ``func.func(canonicalize{max-iterations=2})``.
        argument: the pass's name alone, as in ``canonicalize``.
        remaining: the text of the pipeline from this pass on.
    """

    number: int
    text: str
    argument: str
    remaining: str


class Instrumentation:
    """Base class of hooks that a pipeline calls with the module before and after each pass.

    The hooks of this class do nothing.
    """

    def before(self, step: WatchedPass, module: ir.Module) -> None:
        """Observe the module before a pass runs."""

    def after(self, step: WatchedPass, module: ir.Module) -> None:
        """Observe the verified module after a pass that succeeded."""

    def failed(self, step: WatchedPass, module: ir.Module) -> None:
        """Observe the module after a pass that failed or left an invalid module."""

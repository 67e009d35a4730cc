"""The hooks of a running pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class WatchedPass:
    """A pass of a running pipeline.

    Attributes:
        number: the pass's number in the pipeline, from 0.
        text: the pass with its options, nested in its operations below the module.
        argument: the pass's name alone.
        remaining: the pipeline from this pass on.
    """

    number: int
    text: str
    argument: str
    remaining: str


class Instrumentation:
    """Base class of hooks that run around each pass with the current module.

    Its hooks do nothing.
    """

    def before(self, step: WatchedPass, module: ir.Module) -> None:
        """Observe the module before a pass runs."""

    def after(self, step: WatchedPass, module: ir.Module) -> None:
        """Observe the verified module after a pass that succeeded."""

    def failed(self, step: WatchedPass, module: ir.Module) -> None:
        """Observe the module after a pass that failed or left an invalid module."""

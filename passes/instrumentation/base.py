"""The hooks of a pipeline that runs."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class WatchedPass:
    """A pass of a pipeline that runs.

    Attributes:
        number: of the pass in the pipeline, from 0.
        text: the pass with its options, in the operations that it is nested in below the module.
        argument: its name alone.
        remaining: the pipeline from this pass on.
    """

    number: int
    text: str
    argument: str
    remaining: str


class Instrumentation:
    """Is called around each pass, with the module as it then is; does nothing by itself."""

    def before(self, step: WatchedPass, module: ir.Module) -> None:
        """Is called before a pass runs."""

    def after(self, step: WatchedPass, module: ir.Module) -> None:
        """Is called after a pass that did not fail, once the module is verified."""

    def failed(self, step: WatchedPass, module: ir.Module) -> None:
        """Is called after a pass that failed, or that left a module that is not valid."""

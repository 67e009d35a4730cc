"""Calls the compiled parts of a host program."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.runtime.compiled import RunnableModel

Value = Any
"""A tensor, a list of tensors, or None for an absent optional value."""


class Part:
    """A compiled part of a model, called with its inputs in order instead of by name."""

    def __init__(self, model: RunnableModel) -> None:
        """Wrap ``model``, the compiled part that is called."""
        self.model = model
        self.names = tuple(model.input_names)

    def call(self, values: Sequence[Value]) -> list[Value]:
        """Run the part on ``values``, the inputs in order; return the outputs in order.

        Raises:
            RammerError: if the part fails.
        """
        return list(self.model.run(dict(zip(self.names, values, strict=True))).values())

    @contextmanager
    def program(self, values: Sequence[Value]) -> Generator[RunnableModel]:
        """Yield the program that runs on ``values``; it stays open until the ``with`` block ends.

        If the part has open dimensions, the program is the part's specialization for the shapes of
        ``values``; otherwise it is the part itself.

        Raises:
            RammerError: if the program cannot be compiled.
        """
        if not isinstance(self.model, OpenModel):
            yield self.model
            return
        with self.model.specialization(dict(zip(self.names, values, strict=True))) as found:
            yield found

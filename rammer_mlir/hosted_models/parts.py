"""Compiled parts that a host program calls."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.runtime.compiled import RunnableModel

Value = Any
"""A tensor, a list of tensors, or None for an absent optional value."""


class Part:
    """A compiled part of a model, called with values in the order of its inputs."""

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
        """Yield the program for values of these shapes; it stays open until the context ends.

        Raises:
            RammerError: if the program cannot be compiled.
        """
        if not isinstance(self.model, OpenModel):
            yield self.model
            return
        with self.model.specialization(dict(zip(self.names, values, strict=True))) as found:
            yield found

"""The compiled parts that a host program runs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.runtime.compiled import RunnableModel

Value = Any
"""A tensor, a list of tensors, or None for an optional value that is not there."""


class Part:
    """A part of a model, called on values in the order of its inputs."""

    def __init__(self, model: RunnableModel) -> None:
        """Take the compiled part."""
        self.model = model
        self.names = tuple(model.input_names)

    def call(self, values: Sequence[Value]) -> list[Value]:
        """Return the outputs in order.

        Raises:
            RammerError: as running the part does.
        """
        return list(self.model.run(dict(zip(self.names, values, strict=True))).values())

    @contextmanager
    def program(self, values: Sequence[Value]) -> Generator[RunnableModel]:
        """Give what runs values like these; it is not closed before the end.

        Raises:
            RammerError: if it cannot be made.
        """
        if not isinstance(self.model, OpenModel):
            yield self.model
            return
        with self.model.specialization(dict(zip(self.names, values, strict=True))) as found:
            yield found

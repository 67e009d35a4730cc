"""A model of the zoo, and the sizes of open dimensions that it is run at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rammer_mlir.benchmarks.exports.spec import Case, Input

LENGTHS = (1, 7, 33, 64, 200, 1025)
SEQUENCES: tuple[Case, ...] = tuple(
    {"batch": 1 + index % 3, "length": length} for index, length in enumerate(LENGTHS)
)
IMAGES: tuple[Case, ...] = tuple({"batch": batch} for batch in (1, 2, 3))
SIZED_IMAGES: tuple[Case, ...] = (
    {"batch": 1, "height": 64, "width": 64},
    {"batch": 2, "height": 96, "width": 64},
    {"batch": 3, "height": 64, "width": 128},
)


@dataclass(frozen=True)
class Model:
    """A model to export.

    Attributes:
        name: name of the model and of its files.
        make: returns the model, an object of its framework, with random weights.
        inputs: its inputs, in the order of its arguments.
        cases: sizes of the open dimensions that the exported model is run at.
        exporters: names of the exporters of its framework that it is exported by.
    """

    name: str
    make: Callable[[], Any]
    inputs: tuple[Input, ...]
    cases: tuple[Case, ...]
    exporters: tuple[str, ...] = ("torchscript", "dynamo")


def image(size: int | tuple[str, str], channels: int = 3) -> tuple[Input, ...]:
    """Return the input ``x``, a batch of images; named sizes are open dimensions."""
    height, width = (size, size) if isinstance(size, int) else size
    return (Input("x", ("batch", channels, height, width)),)


def tokens(mask: bool = True, high: int = 100) -> tuple[Input, ...]:
    """Return the input of token ids below ``high``, and with ``mask`` an attention mask."""
    ids = Input("input_ids", ("batch", "length"), "tokens", high)
    found = Input("attention_mask", ("batch", "length"), "mask")
    return (ids, found) if mask else (ids,)

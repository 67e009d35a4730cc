"""Define the export entry of a model: how the model is made, its inputs and its sizes."""

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
    """An export entry: describes a model to export.

    Attributes:
        name: name of the model and of its files.
        make: returns the model, an object of its framework, with random weights.
        inputs: descriptions of the model's inputs, in the order of the model's arguments.
        cases: sizes of the open dimensions at which the exported model is run.
        exporters: names of the framework's exporters that can export the model.
    """

    name: str
    make: Callable[[], Any]
    inputs: tuple[Input, ...]
    cases: tuple[Case, ...]
    exporters: tuple[str, ...] = ("torchscript", "dynamo")


def image(size: int | tuple[str, str], channels: int = 3) -> tuple[Input, ...]:
    """Return the description of an image model's input ``x`` [batch, channels, height, width].

    ``size`` is the height and width of square images in pixels. A pair of strings makes height and
    width open dimensions of these names.
    """
    height, width = (size, size) if isinstance(size, int) else size
    return (Input("x", ("batch", channels, height, width)),)


def tokens(mask: bool = True, high: int = 100) -> tuple[Input, ...]:
    """Return the descriptions of a text model's inputs: token ids, and a mask if ``mask`` is true.

    Both inputs have the shape [batch, length]. Token ids are below ``high``; the mask is the
    attention mask.
    """
    ids = Input("input_ids", ("batch", "length"), "tokens", high)
    found = Input("attention_mask", ("batch", "length"), "mask")
    return (ids, found) if mask else (ids,)

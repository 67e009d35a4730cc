"""Define an exported model's inputs and cases (sizes), stored as JSON next to its ONNX file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Case = Mapping[str, int]
"""Sizes of the open dimensions, by name."""


@dataclass(frozen=True)
class Input:
    """An input of an exported model: its name, its shape, and the distribution of its values.

    Attributes:
        name: name of the input.
        shape: size of each dimension; a name or a sum of names stands for an open dimension.
        kind: element type and distribution of the values:

            - ``normal``: f32, normally distributed.
            - ``uniform``: f32, from 0 to 1.
            - ``constant``: f32, ``high`` everywhere.
            - ``page``: f32, dark strokes in lines on a light background.
            - ``tokens``: i64, from 3 to below ``high``.
            - ``indices``: i64, from 0 to below ``high``.
            - ``lengths``: i64, descending from ``high``.
            - ``mask``: i64, ones and then zeros in each row.
            - ``positions``: i64, 0, 1, 2, ... in each row.

        high: the bound or value for the kinds ``constant``, ``tokens``, ``indices`` and
            ``lengths``: a number, or the name of an open dimension, or a sum of such names. A name
            stands for the dimension's size.
    """

    name: str
    shape: tuple[int | str, ...]
    kind: str = "normal"
    high: int | str = 100

    def draw(self, case: Case, rng: np.random.Generator) -> Array:
        """Return a random array with the input's shape, element type and distribution of values.

        ``case`` has the sizes of the open dimensions in the input's shape.
        """
        shape = [size_of(each, case) for each in self.shape]
        return _DRAWS[self.kind](size_of(self.high, case), shape, rng)


@dataclass(frozen=True)
class Spec:
    """An exported model: name, exporter, inputs, and the cases to run.

    A case is a size for each open dimension.
    """

    name: str
    exporter: str
    inputs: tuple[Input, ...]
    cases: tuple[Case, ...]

    def feeds(self, case: Case, seed: int = 0) -> dict[str, Array]:
        """Return random inputs by name, with the sizes in ``case``."""
        rng = np.random.default_rng(seed)
        return {each.name: each.draw(case, rng) for each in self.inputs}

    def save(self, path: Path) -> None:
        """Write the description as JSON to the file ``path``."""
        path.write_text(json.dumps(asdict(self), indent=1))


def load(path: Path) -> Spec:
    """Return the description that ``Spec.save`` wrote to the file ``path``."""
    data = json.loads(path.read_text())
    inputs = tuple(Input(shape=tuple(each.pop("shape")), **each) for each in data["inputs"])
    return Spec(data["name"], data["exporter"], inputs, tuple(data["cases"]))


def size_of(dim: int | str, case: Case) -> int:
    """Return the size of the dimension ``dim``.

    ``dim`` is a number, a name in ``case``, or a sum of names, such as ``past + length``.
    """
    if isinstance(dim, int):
        return dim
    terms = (term.strip() for term in dim.split("+"))
    return sum(int(term) if term.isdigit() else case[term] for term in terms)


def _normal(_: int, shape: Sequence[int], rng: np.random.Generator) -> Array:
    return np.asarray(rng.standard_normal(shape), np.float32)


def _uniform(_: int, shape: Sequence[int], rng: np.random.Generator) -> Array:
    return rng.random(shape).astype(np.float32)


def _tokens(high: int, shape: Sequence[int], rng: np.random.Generator) -> Array:
    return rng.integers(3, high, shape).astype(np.int64)


def _indices(high: int, shape: Sequence[int], rng: np.random.Generator) -> Array:
    return rng.integers(0, high, shape).astype(np.int64)


def _page(_: int, shape: Sequence[int], rng: np.random.Generator) -> Array:
    *images, height, width = shape
    cells = (*images, -(-height // 4), -(-width // 2))
    lines = np.arange(cells[-2]) // 3 % 2 == 0
    strokes = (rng.random(cells) < 0.4) & lines[:, None]
    pixels = strokes.repeat(4, -2).repeat(2, -1)[..., :height, :width]
    return np.where(pixels, np.float32(-1), np.float32(1))


def _constant(high: int, shape: Sequence[int], _: np.random.Generator) -> Array:
    return np.full(shape, high, np.float32)


def _mask(_: int, shape: Sequence[int], __: np.random.Generator) -> Array:
    mask = np.ones(shape, np.int64)
    for row in range(1, mask.shape[0]):
        mask[row, max(1, mask.shape[1] - 2 * row) :] = 0
    return mask


def _lengths(high: int, shape: Sequence[int], rng: np.random.Generator) -> Array:
    found = rng.integers(1, high, shape, endpoint=True).astype(np.int64)
    found[0] = high
    return -np.sort(-found)


def _positions(_: int, shape: Sequence[int], __: np.random.Generator) -> Array:
    return np.broadcast_to(np.arange(shape[-1], dtype=np.int64), shape).copy()


_DRAWS = {
    "normal": _normal,
    "uniform": _uniform,
    "tokens": _tokens,
    "mask": _mask,
    "lengths": _lengths,
    "positions": _positions,
    "indices": _indices,
    "constant": _constant,
    "page": _page,
}

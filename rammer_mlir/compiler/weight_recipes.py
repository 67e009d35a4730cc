"""How the arrays that compiled code reads are made from a model's weights, with NumPy alone.

A recipe is what ``rtask.constant`` and its attributes say of an argument (``passes/ir/constants``);
as JSON it can be kept, and followed again for other values of the same weights.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ModelError

Array = NDArray[np.generic]

Step = Sequence[int] | Sequence[Sequence[float]]
"""A shape or a permutation, in turn, or a matrix that the first dimension is multiplied by."""


@dataclass(frozen=True)
class Part:
    """A weight among several that are joined along their first dimension, and the zeros around it.

    Attributes:
        source: makes the weight.
        shape: of the weight there.
        low: zeros in front of it, in each dimension.
        size: with all zeros.
    """

    source: Recipe
    shape: tuple[int, ...]
    low: tuple[int, ...]
    size: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How one array is made.

    Attributes:
        name: of the weight.
        held: its value, where the program itself holds it.
        parts: weights that are joined, in its place.
        steps: reshapes and transposes in turn, beginning with a reshape, and matrices.
        shape: of the array in the end; None leaves it as it is.
    """

    name: str
    held: Array | None = None
    parts: tuple[Part, ...] = ()
    steps: tuple[Step, ...] = ()
    shape: tuple[int, ...] | None = None

    def array(self, values: Mapping[str, Array]) -> Array:
        """Return the array, of any strides; one that no step copies shares the weight's memory.

        Raises:
            ModelError: if a weight has no value.
        """
        found = self._transformed(values)
        return np.ascontiguousarray(found).reshape(
            found.shape if self.shape is None else self.shape
        )

    def _transformed(self, values: Mapping[str, Array]) -> Array:
        array = self._joined(values) if self.parts else self._value(values)
        given, transposes = array.dtype, False
        for step in self.steps:
            if is_matrix(step):
                columns = array.astype(np.float64).reshape(array.shape[0], -1)
                array = (np.array(step) @ columns).reshape(len(step), *array.shape[1:])
                transposes = False
            else:
                sizes: Any = step
                try:
                    array = array.transpose(sizes) if transposes else array.reshape(sizes)
                except ValueError as error:
                    raise ModelError(
                        f"weight '{self.name}': expected 'rtask.pack' of a value of shape "
                        f"{tuple(array.shape)}, found the step {list(sizes)}; change one of them"
                    ) from error
                transposes = not transposes
        return array.astype(given, copy=False)

    def _joined(self, values: Mapping[str, Array]) -> Array:
        """Return the parts one after the other, with zeros around them."""
        arrays: list[Array] = []
        for part in self.parts:
            array = part.source._transformed(values).reshape(part.shape)
            padded = np.zeros(part.size, array.dtype)
            bounds = zip(part.low, part.shape, strict=True)
            padded[tuple(slice(a, a + n) for a, n in bounds)] = array
            arrays.append(padded)
        return np.concatenate(arrays)

    def _value(self, values: Mapping[str, Array]) -> Array:
        if self.held is not None:
            return self.held
        if self.name not in values:
            raise ModelError(
                f"weight '{self.name}' has no value: expected it beside the IR; compile from the "
                "ONNX model, or give the weights"
            )
        return values[self.name]

    def names(self) -> set[str]:
        """Return the weights that the array is made from."""
        if self.parts:
            return {name for part in self.parts for name in part.source.names()}
        return set() if self.held is not None else {self.name}

    def to_json(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """Return the recipe for JSON, with weights by number instead of name."""
        found: dict[str, Any] = {"steps": self.steps, "shape": self.shape}
        if self.parts:
            sources = ((part, part.source.to_json(numbers)) for part in self.parts)
            found["parts"] = [[s, p.shape, p.low, p.size] for p, s in sources]
        elif self.held is None:
            found["weight"] = numbers[self.name]
        else:
            found["held"] = _array_to_json(self.held)
        return found


def recipe_from_json(found: Mapping[str, Any], names: Sequence[str]) -> Recipe:
    """Return what ``Recipe.to_json`` gave, for weights of these names by number."""
    parts = tuple(
        Part(recipe_from_json(source, names), tuple(shape), tuple(low), tuple(size))
        for source, shape, low, size in found.get("parts", ())
    )
    held = _array_from_json(found["held"]) if "held" in found else None
    number: int | None = found.get("weight")
    name = "" if number is None else names[number]
    shape = None if found["shape"] is None else tuple(found["shape"])
    return Recipe(name, held, parts, tuple(found["steps"]), shape)


def is_matrix(step: Step) -> bool:
    """Whether a step is a matrix."""
    return len(step) > 0 and not isinstance(step[0], int)


def _array_to_json(array: Array) -> list[Any]:
    """Return type, shape and content; of one value repeated, that value."""
    dense = np.ascontiguousarray(array)
    single = dense.tobytes()[: dense.itemsize]
    content = dense.tobytes()
    is_splat = content == single * dense.size
    text = base64.b64encode(single if is_splat else content).decode()
    return [dense.dtype.str, list(array.shape), text]


def _array_from_json(found: Sequence[Any]) -> Array:
    kind, shape, text = found
    flat = np.frombuffer(base64.b64decode(text), np.dtype(kind))
    size = int(np.prod(shape, dtype=np.int64))
    return (flat if flat.size == size else np.broadcast_to(flat, size)).reshape(shape)

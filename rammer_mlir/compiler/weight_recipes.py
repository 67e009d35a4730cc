"""Computes the arrays that compiled code reads from a model's weights, in NumPy.

The steps of this computation, reshapes and transposes for example, are a recipe. A recipe has the
content of the attributes ``rtask.constant``, ``rtask.pack`` and ``rtask.parts`` of an argument
(``passes/ir/constants``). A cached program contains its recipes as JSON, so that other values of
the same weights can be transformed without the compiler.
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

Step = Sequence[int] | Sequence[Sequence[float]] | str
"""A step of a recipe: a shape to reshape to, a permutation of dimensions, a matrix, or a sum.

Shapes and permutations alternate. A matrix multiplies the first dimension. A sum is the type of its
terms, ``ui8`` or ``si8``, as a text: the array is summed along the first dimension, in int32.
"""

_TERMS = {"ui8": np.dtype(np.uint8), "si8": np.dtype(np.int8)}


@dataclass(frozen=True)
class Part:
    """A weight that is padded with zeros, then concatenated with other weights along dimension 0.

    Attributes:
        source: recipe of the weight.
        shape: shape of the weight before padding.
        low: count of zeros before the weight in each dimension.
        size: shape of the weight after padding.
    """

    source: Recipe
    shape: tuple[int, ...]
    low: tuple[int, ...]
    size: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Recipe:
    """The steps that turn one or several weights into an array that compiled code reads.

    Attributes:
        name: name of the weight; empty if ``parts`` is given.
        held: the weight's value, if the IR contains this value (``rtask.value``); else None.
        parts: the weights to concatenate, if the array is computed from several weights.
        steps: the steps to apply in order. Reshapes and transposes alternate, a reshape first.
            Before a reshape there may be another step, which multiplies the first dimension by a
            matrix or sums over the first dimension.
        shape: final shape; None for the shape that results from the steps.
    """

    name: str
    held: Array | None = None
    parts: tuple[Part, ...] = ()
    steps: tuple[Step, ...] = ()
    shape: tuple[int, ...] | None = None

    def array(self, values: Mapping[str, Array]) -> Array:
        """Apply the recipe to ``values``, the weights by name, and return the resulting array.

        The resulting array is dense and row-major. It shares the weight's memory if NumPy can apply
        all steps without a copy.

        Raises:
            ModelError: if ``values`` lacks a weight, or the weight's shape does not fit a step.
        """
        found = self._transformed(values)
        return np.ascontiguousarray(found).reshape(
            found.shape if self.shape is None else self.shape
        )

    def _transformed(self, values: Mapping[str, Array]) -> Array:
        array = self._joined(values) if self.parts else self._value(values)
        given, transposes = array.dtype, False
        for step in self.steps:
            if isinstance(step, str):
                array = array.view(_TERMS[step]).sum(axis=0, dtype=np.int32)
                given, transposes = array.dtype, False
            elif is_matrix(step):
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
        """Pad each part of the recipe with zeros, and return the concatenation of the parts."""
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
        """Return the names of the weights from which the array is computed."""
        if self.parts:
            return {name for part in self.parts for name in part.source.names()}
        return set() if self.held is not None else {self.name}

    def to_json(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """Return the recipe for JSON; a weight is stored as an index.

        ``numbers`` has the index of each weight by the weight's name.
        """
        found: dict[str, Any] = {"steps": self.steps, "shape": self.shape}
        if self.parts:
            sources = ((part, part.source.to_json(numbers)) for part in self.parts)
            found["parts"] = [[s, p.shape, p.low, p.size] for p, s in sources]
        elif self.held is None:
            found["weight"] = numbers[self.name]
        else:
            found["held"] = array_to_json(self.held)
        return found


def recipe_from_json(found: Mapping[str, Any], names: Sequence[str]) -> Recipe:
    """Return the recipe that is stored as ``found``, a result of ``Recipe.to_json``.

    ``found`` contains indices of weights; ``names`` has the weight's name at each index.
    """
    parts = tuple(
        Part(recipe_from_json(source, names), tuple(shape), tuple(low), tuple(size))
        for source, shape, low, size in found.get("parts", ())
    )
    held = array_from_json(found["held"]) if "held" in found else None
    number: int | None = found.get("weight")
    name = "" if number is None else names[number]
    shape = None if found["shape"] is None else tuple(found["shape"])
    return Recipe(name, held, parts, tuple(found["steps"]), shape)


def is_matrix(step: Step) -> bool:
    """Whether a recipe's step multiplies by a matrix; all other steps reshape, transpose or sum."""
    return len(step) > 0 and not isinstance(step[0], int | str)


def array_to_json(array: Array) -> list[Any]:
    """Return dtype, shape and base64 content of an array for JSON.

    If all elements are equal, the content is a single element.
    """
    dense = np.ascontiguousarray(array)
    single = dense.tobytes()[: dense.itemsize]
    content = dense.tobytes()
    is_splat = content == single * dense.size
    text = base64.b64encode(single if is_splat else content).decode()
    return [dense.dtype.name, list(array.shape), text]


def array_from_json(found: Sequence[Any]) -> Array:
    """Return the array that is stored as ``found``, a result of ``array_to_json``."""
    kind, shape, text = found
    flat = np.frombuffer(base64.b64decode(text), np.dtype(kind))
    size = int(np.prod(shape, dtype=np.int64))
    return (flat if flat.size == size else np.broadcast_to(flat, size)).reshape(shape)

"""Defines ``Operation``, an evaluator's argument: an operator with the values of its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
"""An array with any of the element types in ``NUMBERS``."""


def _floats() -> frozenset[np.dtype[Any]]:
    found = {np.dtype(kind) for kind in (np.float16, np.float32, np.float64)}
    try:
        from ml_dtypes import bfloat16
    # an installation without bf16, which runs only models without such tensors
    except ModuleNotFoundError:
        return frozenset(found)
    return frozenset(found | {np.dtype(bfloat16)})


FLOATS = _floats()
INTEGERS = frozenset(map(np.dtype, "bhilBHIL"))
NUMBERS = FLOATS | INTEGERS | {np.dtype(np.bool_)}
"""Element types that evaluators support."""


def integer_limits(kind: np.dtype[np.generic]) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer dtype."""
    bits = 8 * kind.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind.kind == "i" else (0, (1 << bits) - 1)


class NotFoldableError(Exception):
    """Raised for an operator that an evaluator cannot compute.

    At compile time, such an operator is not folded and stays in the graph.
    """


@dataclass(frozen=True)
class Operation:
    """An operator of ONNX with the values of its operands.

    Attributes:
        kind: the operator's name.
        attributes: values by attribute name; a string is ``bytes``, a tensor an array, an element
            type a NumPy dtype.
        inputs: the operands' arrays; None for omitted operands.
        num_results: number of results, including unused results.
    """

    kind: str
    attributes: Mapping[str, Any]  # typed as the operator's specification says
    inputs: Sequence[Numbers | None]
    num_results: int = 1

    def find(self, number: int) -> Numbers | None:
        """Return the operand of index ``number``; None if the operator omits this operand."""
        return self.inputs[number] if number < len(self.inputs) else None

    def input(self, number: int) -> Numbers:
        """Return the operand of index ``number``, which the operator must have.

        Raises:
            NotFoldableError: if the operator omits this operand.
        """
        value = self.find(number)
        if value is None:
            raise NotFoldableError
        return value

    def operands(self) -> list[Numbers]:
        """Return the values of all inputs that are not omitted, in order."""
        return [value for value in self.inputs if value is not None]

    def integers(self, number: int) -> list[int] | None:
        """Return the elements of the operand with index ``number`` as integers.

        Return None if the operator omits this operand.
        """
        value = self.find(number)
        return None if value is None else [int(x) for x in value.reshape(-1)]

    def attribute(self, name: str, default: object = None) -> Any:
        """Return the value of attribute ``name``, or ``default`` if the operator omits it.

        The value has the Python type that ``attributes`` describes.
        """
        return self.attributes.get(name, default)


Evaluator = Callable[[Operation], Sequence[Numbers]]
"""A function that returns all results of an operator.

It raises `NotFoldableError` for unsupported forms of the operator.
"""


def single(compute: Callable[[Operation], Numbers]) -> Evaluator:
    """Return an evaluator of an operator with a single result.

    ``compute`` returns this result; the evaluator returns it as an array, alone in a list.
    """
    return lambda operation: [np.asarray(compute(operation))]


def require(condition: bool) -> None:
    """Raise NotFoldableError unless ``condition`` is true."""
    if not condition:
        raise NotFoldableError

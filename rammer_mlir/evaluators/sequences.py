"""Evaluates ONNX operators on sequences (Python lists) and optional values (None if empty)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from rammer_mlir.evaluators.movement import check_part_sizes
from rammer_mlir.evaluators.operation import Numbers, Operation

HostValue = Any
"""An array, a list of arrays (a sequence), or None for an empty optional value."""

HostEvaluator = Callable[[Operation], Sequence[HostValue]]


def _sequence(operation: Operation) -> list[Numbers]:
    return cast("list[Numbers]", operation.inputs[0])


def _position(operation: Operation, number: int, default: int) -> int:
    given = operation.find(number)
    return default if given is None else int(given.reshape(-1)[0])


def _at(operation: Operation) -> Sequence[HostValue]:
    return [_sequence(operation)[_position(operation, 1, 0)]]


def _insert(operation: Operation) -> Sequence[HostValue]:
    values = list(_sequence(operation))
    position = _position(operation, 2, len(values))
    if not -len(values) <= position <= len(values):
        raise IndexError(f"position {position} in a sequence of {len(values)}")
    values.insert(position, operation.input(1))
    return [values]


def _erase(operation: Operation) -> Sequence[HostValue]:
    values = list(_sequence(operation))
    del values[_position(operation, 1, -1)]
    return [values]


def _length(operation: Operation) -> Sequence[HostValue]:
    return [np.array(len(_sequence(operation)), np.int64)]


def _split(operation: Operation) -> Sequence[HostValue]:
    x, axis = operation.input(0), operation.attribute("axis", 0)
    given, size = operation.find(1), x.shape[axis]
    if given is None:
        parts = np.split(x, size, axis) if size else []
        keep = bool(operation.attribute("keepdims", 1))
        return [parts if keep else [np.squeeze(part, axis) for part in parts]]
    sizes = _part_sizes(given, size)
    # NumPy splits an array into at least one part.
    return [np.split(x, np.cumsum(sizes)[:-1].tolist(), axis) if sizes else []]


def _part_sizes(given: Numbers, size: int) -> list[int]:
    """Return the sizes of the parts into which SplitToSequence splits ``size`` elements.

    ``given`` has the size of each part, or, as a scalar, the size of all parts but the last.

    Raises:
        ValueError: if a size is negative, if the sizes do not add up to ``size``, or if the scalar
            is less than 1.
    """
    if given.ndim == 0:
        most = int(given)
        if most < 1:
            raise ValueError(f"size {most} of each part")
        return [min(most, size - start) for start in range(0, size, most)]
    sizes = [int(each) for each in given]
    check_part_sizes(sizes, size)
    return sizes


def _join(operation: Operation) -> Sequence[HostValue]:
    join = np.stack if operation.attribute("new_axis", 0) else np.concatenate
    return [join(_sequence(operation), axis=operation.attribute("axis"))]


def _optional(operation: Operation) -> Sequence[HostValue]:
    return [operation.inputs[0] if operation.inputs else None]


def _get(operation: Operation) -> Sequence[HostValue]:
    if operation.inputs[0] is None:
        raise ValueError("the optional value is not there")
    return [operation.inputs[0]]


def _has(operation: Operation) -> Sequence[HostValue]:
    return [np.array(bool(operation.inputs) and operation.inputs[0] is not None)]


SEQUENCE_EVALUATORS: Mapping[str, HostEvaluator] = {
    "ConcatFromSequence": _join,
    "Optional": _optional,
    "OptionalGetElement": _get,
    "OptionalHasElement": _has,
    "SequenceAt": _at,
    "SequenceConstruct": lambda operation: [list(operation.inputs)],
    "SequenceEmpty": lambda operation: [[]],
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
"""Evaluators of the operators on sequences and optional values, by operator name."""

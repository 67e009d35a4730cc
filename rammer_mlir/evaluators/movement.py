"""Evaluates ONNX operators that create, reshape, slice and concatenate NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from rammer_mlir.evaluators.operation import (
    FLOATS,
    Evaluator,
    Numbers,
    Operation,
    require,
    single,
)


def _constant(operation: Operation) -> Numbers:
    ((name, value),) = operation.attributes.items()
    if isinstance(value, np.ndarray):
        return value
    require(name in ("value_float", "value_floats", "value_int", "value_ints"))
    return np.array(value, np.float32 if "float" in name else np.int64)


def _constant_of_shape(operation: Operation) -> Numbers:
    """Evaluate ConstantOfShape; the result is a broadcast view of one element, to save memory."""
    value = operation.attribute("value")
    filling = np.zeros(1, np.float32) if value is None else value
    return np.broadcast_to(filling.reshape(()), operation.integers(0) or [])


def _range(operation: Operation) -> Numbers:
    start, limit, delta = (operation.input(number).reshape(()) for number in range(3))
    require(bool(delta != 0))
    if start.dtype in FLOATS:
        distance = float(limit - start)
        require(bool(np.isfinite(distance)))
        length = max(int(np.ceil(distance / float(delta))), 0)
    else:
        length = len(range(int(start), int(limit), int(delta)))
    return start + np.arange(length).astype(start.dtype) * delta


def _eye_like(operation: Operation) -> Numbers:
    x = operation.input(0)
    kind = operation.attribute("dtype", x.dtype)
    return np.eye(*x.shape, k=operation.attribute("k", 0)).astype(kind)


def _shape(operation: Operation) -> Numbers:
    part = slice(operation.attribute("start", 0), operation.attribute("end"))
    return np.array(operation.input(0).shape[part], np.int64)


def _reshape(operation: Operation) -> Numbers:
    x, wanted = operation.input(0), operation.integers(1) or []
    if not operation.attribute("allowzero", 0):
        wanted = [x.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    return x.reshape(wanted)


def _flatten(operation: Operation) -> Numbers:
    x, axis = operation.input(0), operation.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


def _squeeze(operation: Operation) -> Numbers:
    axes = operation.integers(1)
    return np.squeeze(operation.input(0), None if axes is None else tuple(axes))


def _unsqueeze(operation: Operation) -> Numbers:
    return np.expand_dims(operation.input(0), tuple(operation.integers(1) or ()))


def _transpose(operation: Operation) -> Numbers:
    return np.ascontiguousarray(np.transpose(operation.input(0), operation.attribute("perm")))


def _concat(operation: Operation) -> Numbers:
    return np.concatenate(operation.operands(), operation.attribute("axis"))


def _split(operation: Operation) -> Sequence[Numbers]:
    x, axis = operation.input(0), operation.attribute("axis", 0)
    sizes, length = operation.integers(1), x.shape[axis]
    if sizes is None:
        size = -(-length // operation.num_results)
        sizes = [min(size, length - i * size) for i in range(operation.num_results)]
    require(len(sizes) == operation.num_results)
    check_part_sizes(sizes, length)
    return np.split(x, np.cumsum(sizes)[:-1].tolist(), axis)


def check_part_sizes(sizes: Sequence[int], size: int) -> None:
    """Check that an axis of ``size`` elements can be split into parts of ``sizes`` elements.

    Raises:
        ValueError: if a part's size is negative, or if the sizes do not add up to ``size``.
    """
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise ValueError(f"sizes {', '.join(map(str, sizes))} of the parts of {size} elements")


def _slice(operation: Operation) -> Numbers:
    x = operation.input(0)
    starts, ends = operation.integers(1) or [], operation.integers(2) or []
    axes = operation.integers(3) or range(len(starts))
    steps = operation.integers(4) or [1] * len(starts)
    parts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        parts[axis] = sliced(start, end, step, x.shape[axis])
    return np.ascontiguousarray(x[tuple(parts)])


def sliced(start: int, end: int, step: int, size: int) -> slice:
    """Return the Python slice that equals ONNX's Slice of a dimension of ``size`` elements.

    With a negative step, a start before the first element becomes the first element, as in ONNX. An
    end before the first element becomes None, since Python counts a negative end from the back.
    """
    if step > 0:
        return slice(start, end, step)
    return slice(max(start, -size), None if end < -size else end, step)


def _expand(operation: Operation) -> Numbers:
    x = operation.input(0)
    shape = np.broadcast_shapes(x.shape, tuple(operation.integers(1) or ()))
    return np.broadcast_to(x, shape)


def _tile(operation: Operation) -> Numbers:
    return np.tile(operation.input(0), operation.integers(1) or [])


def _pad(operation: Operation) -> Numbers:
    x, widths = operation.input(0), operation.integers(1) or []
    axes = operation.integers(3) or range(x.ndim)
    given = operation.find(2)
    pairs, kept = [(0, 0)] * x.ndim, [slice(None)] * x.ndim
    for number, axis in enumerate(axes):
        low, high = widths[number], widths[number + len(axes)]
        kept[axis] = slice(max(-low, 0), x.shape[axis] - max(-high, 0))
        pairs[axis] = (max(low, 0), max(high, 0))
    mode = operation.attribute("mode", b"constant").decode()
    if mode != "constant":
        return np.pad(x[tuple(kept)], pairs, mode=mode)
    value = np.zeros((), x.dtype) if given is None else given.reshape(())
    return np.pad(x[tuple(kept)], pairs, constant_values=value)


def _triangle(operation: Operation) -> Numbers:
    x = operation.input(0)
    shift = (operation.integers(1) or [0])[0]
    keep = np.triu if operation.attribute("upper", 1) else np.tril
    return np.where(keep(np.ones(x.shape[-2:], np.bool_), shift), x, np.zeros((), x.dtype))


EVALUATORS: dict[str, Evaluator] = {
    "Concat": single(_concat),
    "Constant": single(_constant),
    "ConstantOfShape": single(_constant_of_shape),
    "Expand": single(_expand),
    "EyeLike": single(_eye_like),
    "Flatten": single(_flatten),
    "Pad": single(_pad),
    "Range": single(_range),
    "Reshape": single(_reshape),
    "Shape": single(_shape),
    "Size": single(lambda operation: np.array(operation.input(0).size, np.int64)),
    "Slice": single(_slice),
    "Split": _split,
    "Squeeze": single(_squeeze),
    "Tile": single(_tile),
    "Transpose": single(_transpose),
    "Trilu": single(_triangle),
    "Unsqueeze": single(_unsqueeze),
}
"""Evaluators of the operators that create, reshape, slice and concatenate, by operator name."""

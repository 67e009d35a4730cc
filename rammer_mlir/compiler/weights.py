"""The values of weights, packed as the compiled code reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.errors import ModelError
from rammer_mlir.passes.ir.constants import PARTS, ConstantArgument, constant_arguments

Array = NDArray[np.generic]


def packed_weights(main: ir.OpView, values: Mapping[str, Array]) -> dict[int, Array]:
    """Return the array of every weight argument of the entry function, by argument number.

    Arrays are dense, row-major and of the argument's shape; unpacked ones are not copied.

    Raises:
        ModelError: if a weight has no value.
    """
    return {weight.number: _packed(weight, values) for weight in constant_arguments(main)}


def _packed(weight: ConstantArgument, values: Mapping[str, Array]) -> Array:
    array = _transformed(weight, values)
    shape = tuple(ir.ShapedType(weight.value.type).shape)
    return np.ascontiguousarray(array).reshape(shape)


def _transformed(weight: ConstantArgument, values: Mapping[str, Array]) -> Array:
    array = _joined(weight, values) if PARTS in weight.attributes else _value(weight, values)
    given, transposes = array.dtype, False
    for step in weight.steps:
        if isinstance(step, tuple):
            columns = array.astype(np.float64).reshape(array.shape[0], -1)
            array = (np.array(step) @ columns).reshape(len(step), *array.shape[1:])
            transposes = False
        else:
            array = array.transpose(step) if transposes else array.reshape(step)
            transposes = not transposes
    return array.astype(given, copy=False)


def _joined(weight: ConstantArgument, values: Mapping[str, Array]) -> Array:
    """Return the parts of a weight one behind the other, with zeros around them."""
    arrays: list[Array] = []
    for entry in ir.ArrayAttr(weight.attributes[PARTS]):
        attributes = {item.name: item.attr for item in ir.DictAttr(entry)}
        shape, low, size = (
            list(ir.DenseI64ArrayAttr(attributes[name])) for name in ("shape", "low", "size")
        )
        part = _transformed(ConstantArgument(-1, weight.value, attributes), values).reshape(shape)
        padded = np.zeros(size, part.dtype)
        padded[tuple(slice(a, a + n) for a, n in zip(low, shape, strict=True))] = part
        arrays.append(padded)
    return np.concatenate(arrays)


def _value(weight: ConstantArgument, values: Mapping[str, Array]) -> Array:
    held = weight.held
    if held is not None:
        return held
    if weight.name not in values:
        raise ModelError(
            f"weight '{weight.name}' has no value: expected it beside the IR; compile from the "
            "ONNX model, or give the weights"
        )
    return values[weight.name]

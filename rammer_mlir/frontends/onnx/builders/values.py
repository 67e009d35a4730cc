"""Defines ``Tensor``, a value of the IR with its ONNX element type; emits constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from rammer_mlir.bindings import arith, ir, linalg, tensor
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.passes.ir.byte_formats import in_bytes
from rammer_mlir.passes.ir.scalar import (
    BF16,
    BOOL,
    DType,
    element_type,
    literal,
    literal_attribute,
)

Expr = ir.AffineExpr | int
"""An index expression: an affine expression, the index of a loop, or ``ZERO``."""

ZERO = -1
"""In an ``Expr``: the constant index 0, for a broadcast dimension of size 1."""


@dataclass(frozen=True)
class Tensor:
    """A tensor value with its ONNX element type."""

    value: ir.Value
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape of the tensor."""
        return tuple(ir.RankedTensorType(self.value.type).shape)

    @property
    def rank(self) -> int:
        """Number of dimensions of the tensor."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the tensor."""
        return prod(self.shape)


def tensor_type(shape: Sequence[int], dtype: DType) -> ir.RankedTensorType:
    """Return the builtin tensor type of a shape and dtype."""
    return ir.RankedTensorType.get(list(shape), element_type(dtype))


def constant(array: Array) -> Tensor:
    """Emit a constant tensor with the value, shape and dtype of an array."""
    kind = element_type(array.dtype)
    data = np.ascontiguousarray(array)
    if array.dtype == BF16:
        data = data.view(np.uint16)
    elif in_bytes(array.dtype):
        data = data.view(np.uint8)
    shaped = tensor_type(array.shape, array.dtype)
    if array.size == 0:
        return empty(array.shape, array.dtype)
    if array.dtype == BOOL:
        values = [ir.BoolAttr.get(bool(value)) for value in array.reshape(-1)]
        attribute = ir.DenseElementsAttr.get(values, shaped)
    else:
        attribute = ir.DenseElementsAttr.get(data, type=kind, shape=list(array.shape))
    return Tensor(arith.ConstantOp(shaped, attribute).result, array.dtype)


def splat(shape: Sequence[int], value: float, dtype: DType) -> Tensor:
    """Emit a constant with ``value`` in all elements, stored once in the IR (a splat attribute)."""
    shaped = tensor_type(shape, dtype)
    attribute = ir.DenseElementsAttr.get_splat(shaped, literal_attribute(value, dtype))
    return Tensor(arith.ConstantOp(shaped, attribute).result, dtype)


def empty(shape: Sequence[int], dtype: DType) -> Tensor:
    """Emit an uninitialized tensor of a shape and dtype."""
    return Tensor(tensor.EmptyOp(list(shape), element_type(dtype)).result, dtype)


def full(shape: Sequence[int], value: float, dtype: DType) -> Tensor:
    """Emit an operation that fills a tensor of ``shape`` with ``value``."""
    if 0 in shape:
        return empty(shape, dtype)
    scalar, out = literal(value, dtype).value, empty(shape, dtype).value
    # Not linalg.fill, whose builder is five times slower, since it constructs the operation's
    # definition at each call.
    op = linalg.FillOp([out.type], [scalar], [out])
    linalg.fill_builtin_region(op.operation)
    return Tensor(op.results[0], dtype)

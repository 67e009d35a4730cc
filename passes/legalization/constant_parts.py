"""Emits constants of unsupported element types as tensors of supported types.

The module ``stored_types`` lists the unsupported types and how they are stored.
"""

from __future__ import annotations

import re

import numpy as np

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.ir.dense_values import array_of, dense_attribute
from rammer_mlir.passes.legalization.stored_types import storage_of

_DENSE = re.compile(r"dense<(?P<values>.*)> : tensor<", re.DOTALL)


def constant_parts(op: ir.Operation) -> list[ir.Value]:
    """Emit constants of supported types that store an ``arith.constant`` tensor; return them.

    A complex constant is stored as a tensor of real parts and a tensor of imaginary parts. A
    constant of a narrow type is stored as a single tensor.
    """
    kind = ir.RankedTensorType(op.results[0].type)
    storage = storage_of(kind.element_type)
    assert storage is not None
    if isinstance(kind.element_type, ir.ComplexType):
        return _complex_parts(op, kind)
    return storage.store(op.clone().results[0])  # which MLIR folds


def _complex_parts(op: ir.Operation, kind: ir.RankedTensorType) -> list[ir.Value]:
    """Emit a constant for the real and one for the imaginary parts of a complex constant.

    The elements are parsed from the printed operation, because the bindings have no class for dense
    attributes of complex numbers.
    """
    found = _DENSE.search(op.get_asm())
    assert found is not None, "resources and sparse constants are dense by now"
    text = found["values"]
    is_splat = text.startswith("(")
    if not text.startswith('"'):  # not the bytes
        text = text.replace("(", "[").replace(")", "]")
    part = ir.ComplexType(kind.element_type).element_type
    shape = [*([] if is_splat else kind.shape), 2]
    pairs = ir.RankedTensorType.get(shape, part)
    array = array_of(ir.DenseElementsAttr(ir.Attribute.parse(f"dense<{text}> : {pairs}")))
    return [
        arith.ConstantOp(
            ir.RankedTensorType.get(kind.shape, part),
            dense_attribute(np.broadcast_to(array[..., number], kind.shape), part),
        ).result
        for number in range(2)
    ]

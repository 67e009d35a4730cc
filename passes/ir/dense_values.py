"""Converts between dense attributes and NumPy arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import arith, func, ir, passmanager

Array = NDArray[np.generic]

_RESOURCE = re.compile(r'^\s*(?P<name>[\w.$-]+|"[^"]*"): "0x(?P<hex>[0-9A-Fa-f]*)"', re.MULTILINE)
_TRAILER = "\n{-#\n"
_ALIGNMENT_BYTES = 4
"""Size of the alignment field that precedes a resource's content, in bytes."""


def dense_attribute(array: Array, element: ir.Type) -> ir.DenseElementsAttr:
    """Return a dense attribute of an array's shape and content, with elements of type ``element``.

    The element type has as many bytes as an element of the array.
    """
    kind = ir.RankedTensorType.get(array.shape, element)
    dense = np.ascontiguousarray(array)
    if dense.dtype == np.bool_:
        return ir.DenseElementsAttr.get(dense)
    if array.dtype.kind == "V" or array.dtype.itemsize == 1:  # bfloat16, and what MLIR has as i8
        dense = dense.view(np.dtype(f"i{array.dtype.itemsize}"))
    return ir.DenseElementsAttr.get(dense, type=kind)


def array_of(attribute: ir.DenseElementsAttr) -> Array:
    """Return the value of a dense attribute as an array; the dtype of bf16 is from ml_dtypes."""
    element = ir.ShapedType(attribute.type).element_type  # type: ignore[attr-defined]
    if isinstance(element, ir.BF16Type):
        return np.array(_bits(attribute)).view(np.dtype(ml_dtypes.bfloat16))
    return np.array(attribute)


def _bits(attribute: ir.DenseElementsAttr) -> ir.Attribute:
    """Return a dense attribute of i16 elements with the bits of the bfloat16 ``attribute``.

    The bindings cannot read bfloat16 elements. MLIR computes the i16 elements, by constant folding
    of a bitcast.
    """
    kind: Any = attribute.type  # type: ignore[attr-defined]
    with attribute.context, ir.Location.unknown():  # type: ignore[attr-defined]
        module = ir.Module.create()
        integers = ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_signless(16))
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ir.FunctionType.get([], [integers]))
        with ir.InsertionPoint(function.add_entry_block()):
            constant = arith.ConstantOp(kind, attribute).result
            func.ReturnOp([arith.BitcastOp(integers, constant).result])
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        folded = function.operation.regions[0].blocks[0].operations[0]
        return folded.operation.attributes["value"]


def is_resource(attribute: ir.Attribute) -> bool:
    """Whether an attribute is ``dense_resource``, whose value the bindings do not expose."""
    return str(attribute).startswith("dense_resource<")


def resources_of(module: ir.Module) -> Mapping[str, bytes]:
    """Return the content of all ``dense_resource`` attributes of a module, by name.

    The module is printed, because the bindings cannot read a resource.
    """
    text = module.operation.get_asm()
    _, found, trailer = text.rpartition(_TRAILER)
    if not found:
        return {}
    return {
        match["name"].strip('"'): bytes.fromhex(match["hex"])[_ALIGNMENT_BYTES:]
        for match in _RESOURCE.finditer(trailer)
    }


def resource_name(attribute: ir.Attribute) -> str:
    """Return the name under which a ``dense_resource`` attribute refers to its content."""
    return str(attribute).removeprefix("dense_resource<").partition("> : ")[0].strip('"')

"""Converts ONNX nodes' attributes to the values that evaluators expect."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.tensors import dtype_of

_ELEMENT_TYPES = ("dtype", "output_datatype", "to")
"""Names of the attributes whose integer is an ONNX element type."""


def attributes_of(node: onnx.NodeProto) -> Mapping[str, object]:
    """Return a node's attributes by name: tensors as arrays, element types as NumPy dtypes.

    Graphs are omitted.

    Raises:
        LookupError: if an element type is unknown.
    """
    kept = [a for a in node.attribute if not (a.HasField("g") or a.graphs)]
    return {a.name: _value(a) for a in kept}


def _value(attribute: onnx.AttributeProto) -> object:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if attribute.name in _ELEMENT_TYPES and isinstance(value, int):
        return dtype_of(value)
    return value

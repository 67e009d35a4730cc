"""Serializes JSON graphs as ONNX models, for engines whose libraries read ONNX.

This module encodes the few types of protocol buffer messages that a graph needs, so that the
package `onnx` need not be installed where programs run.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import cast

import numpy as np

from rammer_mlir.engines.graphs.entry import Numbers, constant_array
from rammer_mlir.programs.json_graph import (
    ELEMENT_TYPES,
    OPSET,
    Graph,
    GraphNode,
    GraphTensor,
    Value,
)

_IR_VERSION = 10

DATA_TYPES = {"f32": 1, "i8": 3, "i32": 6, "i64": 7, "f16": 10}
"""ONNX's numbers of element types, by MLIR element type.

``TensorProto.DataType`` and ``ONNXTensorElementDataType`` have the same numbers.
"""

_OF_ARRAYS = {ELEMENT_TYPES[name]: number for name, number in DATA_TYPES.items()}
"""ONNX's numbers of element types, by NumPy's name of the type."""


class _Wire(IntEnum):
    """Wire types of fields in protocol buffers, by their numbers in the encoding."""

    VARINT = 0
    LENGTH = 2
    FIXED32 = 5


class _Kind(IntEnum):
    """Values of ``AttributeProto.AttributeType``, the type of an attribute's value."""

    FLOAT = 1
    INT = 2
    STRING = 3
    FLOATS = 6
    INTS = 7


_PLACES = {_Kind.FLOAT: 2, _Kind.INT: 3, _Kind.STRING: 4, _Kind.FLOATS: 7, _Kind.INTS: 8}


def onnx_model(graph: Graph, weights: Mapping[str, Numbers]) -> bytes:
    """Return a graph as a serialized ONNX ``ModelProto``.

    Args:
        graph: the graph.
        weights: arrays by input name; these inputs become initializers.
    """
    opset = _text(1, "") + _integer(2, OPSET)
    content = _nested(7, _graph(graph, weights))
    return b"".join((_integer(1, _IR_VERSION), *content, _length(8, opset)))


_Parts = list[bytes | memoryview]
"""The bytes of a message in consecutive parts; weights are copied only when parts are joined."""


def _graph(graph: Graph, weights: Mapping[str, Numbers]) -> _Parts:
    numbers = {constant.name: constant_array(constant) for constant in graph.constants}
    given = [tensor for tensor in graph.inputs if tensor.name not in weights]
    found: _Parts = [_length(1, _node(node)) for node in graph.nodes]
    found.append(_text(2, graph.name))
    for name, array in (numbers | {**weights}).items():
        found.extend(_nested(5, _tensor(name, array)))
    found.extend(_length(11, _value_info(tensor)) for tensor in given)
    found.extend(_length(12, _value_info(tensor)) for tensor in graph.outputs)
    return found


def _node(node: GraphNode) -> bytes:
    return b"".join(
        (
            *(_text(1, name) for name in node.inputs),
            *(_text(2, name) for name in node.outputs),
            _text(4, node.op),
            *(
                _length(5, _attribute(name, value))
                for name, value in sorted(node.attributes.items())
            ),
        )
    )


def _attribute(name: str, value: Value) -> bytes:
    kind = _kind(value)
    values = [value] if kind in (_Kind.FLOAT, _Kind.INT, _Kind.STRING) else value
    place = _PLACES[kind]
    fields = (_attribute_value(place, each) for each in cast("Sequence[int | float | str]", values))
    return b"".join((_text(1, name), *fields, _integer(20, kind)))


def _kind(value: Value) -> _Kind:
    if isinstance(value, str):
        return _Kind.STRING
    if isinstance(value, int | float):
        return _Kind.INT if isinstance(value, int) else _Kind.FLOAT
    return _Kind.INTS if all(isinstance(each, int) for each in value) else _Kind.FLOATS


def _attribute_value(place: int, value: float | str) -> bytes:
    if isinstance(value, str):
        return _text(place, value)
    return _integer(place, value) if isinstance(value, int) else _float(place, value)


def _tensor(name: str, array: Numbers) -> _Parts:
    dims = (_integer(1, size) for size in array.shape)
    kind = _integer(2, _OF_ARRAYS[array.dtype.name])
    content = array.reshape(-1).view(np.uint8).data
    return [*dims, kind, _text(8, name), *_nested(9, [content])]


def _value_info(tensor: GraphTensor) -> bytes:
    dims = b"".join(_length(1, _integer(1, size)) for size in tensor.shape)
    kind = _integer(1, DATA_TYPES[tensor.element_type]) + _length(2, dims)
    return _text(1, tensor.name) + _length(2, _length(1, kind))


def _varint(value: int) -> bytes:
    """Return a number encoded as a varint of protocol buffers: 7 bits per byte, lowest first.

    Negative numbers are encoded as 64-bit numbers.
    """
    rest, found = value & (1 << 64) - 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*found, rest))


def _head(place: int, wire: _Wire) -> bytes:
    return _varint(place << 3 | wire)


def _integer(place: int, value: int) -> bytes:
    return _head(place, _Wire.VARINT) + _varint(value)


def _float(place: int, value: float) -> bytes:
    return _head(place, _Wire.FIXED32) + struct.pack("<f", value)


def _length(place: int, content: bytes) -> bytes:
    return b"".join((_head(place, _Wire.LENGTH), _varint(len(content)), content))


def _nested(place: int, parts: _Parts) -> _Parts:
    return [_head(place, _Wire.LENGTH) + _varint(sum(map(len, parts))), *parts]


def _text(place: int, value: str) -> bytes:
    return _length(place, value.encode())

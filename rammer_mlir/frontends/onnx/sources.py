"""Converts models of other libraries to the types that ``load`` accepts."""

from __future__ import annotations

import io
import os
import reprlib
import sys
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import onnx
from numpy.typing import NDArray

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.model import first_line
from rammer_mlir.frontends.onnx.source_folders import ModelWithData, PlainSource
from rammer_mlir.frontends.onnx.tensors import BITS

if TYPE_CHECKING:
    import onnx_ir


_SHARED_BYTES = 4096
"""Least size in bytes of a weight that is shared with its owner; smaller ones are serialized."""


class BinaryFile(Protocol):
    """A file opened in binary mode."""

    def read(self) -> bytes:
        """Return the bytes from the file's position to its end."""
        ...


class OnnxProgram(Protocol):
    """The result of ``torch.onnx.export(..., dynamo=True)``."""

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The ONNX model as a protobuf message."""
        ...


if TYPE_CHECKING:
    GivenModel = PlainSource | bytearray | memoryview | BinaryFile | OnnxProgram | onnx_ir.Model


def source_of(given: object) -> PlainSource:
    """Convert a user's model to a path, bytes, a protobuf message, or a ``ModelWithData``.

    A file is read from its position to its end. ``given`` is not modified. If it is a model of
    ``onnx_ir`` or torch, the result uses the memory of its large weights without a copy.

    Raises:
        ModelError: if ``given`` is not a kind of model, or cannot be read.
    """
    if isinstance(given, str | os.PathLike | bytes | onnx.ModelProto | ModelWithData):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    if hasattr(given, "read"):
        return _content(given)
    ir = sys.modules.get("onnx_ir")  # no models exist before its import
    try:
        inner = getattr(given, "model", given)  # unwraps torch's ONNXProgram
        if ir is not None and isinstance(inner, ir.Model):
            return with_data(cast("onnx_ir.Model", inner))
        proto = getattr(given, "model_proto", None)
    except Exception as error:
        kind = type(given).__name__
        raise ModelError(f"the {kind} cannot be serialized: {first_line(error)}") from error
    if isinstance(proto, onnx.ModelProto):
        return proto
    raise ModelError(
        "expected a path, bytes, a binary file, an onnx.ModelProto, an ONNXProgram of torch, an "
        f"onnx_ir.Model or an ir.Module of MLIR, found {reprlib.repr(given)}; give one of these"
    )


def _content(file: object) -> bytes:
    """Return the bytes from a file's position to its end.

    Raises:
        ModelError: if the system refuses to read the file, or the file is in text mode.
    """
    shown = reprlib.repr(file)
    if isinstance(file, io.TextIOBase):
        raise ModelError(f"expected a binary file, found {shown}; open it with mode 'rb'")
    try:
        found: object = file.read()  # type: ignore[attr-defined]
    except (OSError, ValueError) as error:  # a ValueError if it is closed
        raise ModelError(f"cannot read {shown}: {first_line(error)}") from error
    if not isinstance(found, bytes | bytearray | memoryview):
        kind = type(found).__name__
        raise ModelError(f"expected a binary file, found {shown}, which gives {kind}; give bytes")
    return bytes(found)


def with_data(model: onnx_ir.Model) -> ModelWithData:
    """Convert a model of onnx_ir to a protobuf message without the data of its large weights.

    The result refers to the memory of the large weights, which are not copied. Weights in files are
    read first.
    """
    import onnx_ir
    from onnx_ir import external_data, serde

    values = (value for graph in model.graphs() for value in graph.initializers.values())
    in_files = any(isinstance(value.const_value, onnx_ir.ExternalTensor) for value in values)
    model = model.clone()
    if in_files:
        model = external_data.load_to_model(model)
    data: dict[str, memoryview] = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or not _is_large(tensor):
            continue
        data[name] = _bytes_of(tensor.numpy())
        value.const_value = onnx_ir.ExternalTensor(
            "memory", None, None, tensor.dtype, shape=onnx_ir.Shape(tensor.shape.numpy()), name=name
        )
    proto = serde.serialize_model(model)
    for initializer in proto.graph.initializer:
        del initializer.external_data[:]
    return ModelWithData(proto, data)


def _is_large(tensor: onnx_ir.TensorProtocol) -> bool:
    """Return whether a tensor's data stays in its owner's memory instead of the protobuf message.

    The tensor must be large enough, and its data in memory must equal ONNX's ``raw_data``.
    """
    kind = onnx.TensorProto.DataType.Name(int(tensor.dtype))
    return tensor.nbytes >= _SHARED_BYTES and kind not in BITS and kind != "STRING"


def _bytes_of(array: NDArray[np.generic]) -> memoryview:
    """Return the bytes of an array in row-major order, without a copy if it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data.toreadonly()

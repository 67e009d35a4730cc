"""Models as other libraries hold them, as what ``load`` takes."""

from __future__ import annotations

import io
import os
import reprlib
import sys
from typing import TYPE_CHECKING, Protocol, cast

import onnx

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.given import PlainSource
from rammer_mlir.frontends.onnx.model import first_line

if TYPE_CHECKING:
    import onnx_ir


class BinaryFile(Protocol):
    """A file that is open in binary mode."""

    def read(self) -> bytes:
        """Return the rest of the file."""
        ...


class OnnxProgram(Protocol):
    """What ``torch.onnx.export(..., dynamo=True)`` returns."""

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model."""
        ...


if TYPE_CHECKING:
    GivenModel = PlainSource | bytearray | memoryview | BinaryFile | OnnxProgram | onnx_ir.Model


def source_of(given: object) -> PlainSource:
    """Return a path, the bytes of a model, or an ``onnx.ModelProto`` for what a user gives.

    A file is read from its position to its end. Nothing that is given is changed.

    Raises:
        ModelError: if it is none of the kinds of models, or cannot be read.
    """
    if isinstance(given, str | os.PathLike | bytes | onnx.ModelProto):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    if hasattr(given, "read"):
        return _content(given)
    ir = sys.modules.get("onnx_ir")  # there is none of its models before somebody imports it
    try:
        if ir is not None and isinstance(given, ir.Model):
            return _serialized(cast("onnx_ir.Model", given))
        proto = getattr(given, "model_proto", None)
    except Exception as error:
        kind = type(given).__name__
        raise ModelError(f"the {kind} cannot be serialized: {first_line(error)}") from error
    if isinstance(proto, onnx.ModelProto):
        return proto
    raise ModelError(
        "expected a path, bytes, a binary file, an onnx.ModelProto, an ONNXProgram of torch or an "
        f"onnx_ir.Model, found {reprlib.repr(given)}; give one of these"
    )


def _content(file: object) -> bytes:
    """Return the rest of a file.

    Raises:
        ModelError: if the system refuses that, or the file holds text.
    """
    shown = reprlib.repr(file)
    if isinstance(file, io.TextIOBase):
        raise ModelError(f"expected a binary file, found {shown}; open it with mode 'rb'")
    try:
        found: object = file.read()  # type: ignore[attr-defined]
    except (OSError, ValueError) as error:  # the latter where it is closed
        raise ModelError(f"cannot read {shown}: {first_line(error)}") from error
    if not isinstance(found, bytes | bytearray | memoryview):
        kind = type(found).__name__
        raise ModelError(f"expected a binary file, found {shown}, which gives {kind}; give bytes")
    return bytes(found)


def _serialized(model: onnx_ir.Model) -> onnx.ModelProto:
    """Return a model of onnx_ir, with the weights that it holds in files."""
    from onnx_ir import ExternalTensor, external_data, serde

    values = (value for graph in model.graphs() for value in graph.initializers.values())
    if any(isinstance(value.const_value, ExternalTensor) for value in values):
        model = external_data.load_to_model(model.clone())
    return serde.serialize_model(model)

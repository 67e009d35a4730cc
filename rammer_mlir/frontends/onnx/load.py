"""Reading ONNX models, with one clear line when that fails."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from rammer_mlir.errors import ModelError

Source = str | os.PathLike[str] | bytes | onnx.ModelProto
"""A path, a serialized model, or a model."""


def load(source: Source) -> onnx.ModelProto:
    """Return a checked copy of a model, with external data read in.

    Raises:
        ModelError: if the file or its external data is missing, or it is not a valid ONNX model.
    """
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        name = "the model"
    elif isinstance(source, bytes):
        name = "the model"
        model = _parse(source, name)
    else:
        path = Path(source)
        name = f"'{path}'"
        model = _read(path, name)
    _check(model, name)
    return model


def _read(path: Path, name: str) -> onnx.ModelProto:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {name}: {error.strerror or error}") from error
    model = _parse(content, name)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, onnx.checker.ValidationError, ValueError) as error:
        raise ModelError(
            f"{name}: its external data cannot be read ({_first_line(error)}): expected the file "
            "beside the model"
        ) from error
    return model


def _parse(content: bytes, name: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise ModelError(
            f"{name} is not an ONNX model, or is truncated: expected a serialized ModelProto"
        ) from error
    if not model.ir_version or not model.HasField("graph"):
        raise ModelError(f"{name} is not an ONNX model: expected a ModelProto with a graph")
    return model


def _check(model: onnx.ModelProto, name: str) -> None:
    if not model.graph.output:
        raise ModelError(f"{name} has no outputs: expected at least one")
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelError(
                f"{name}: initializer '{tensor.name}' has external data: give the model's path, so "
                "that the data is found"
            )
    if model.ByteSize() >= onnx.checker.MAXIMUM_PROTOBUF:
        return
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelError(f"{name} is not a valid ONNX model: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".:") if lines else type(error).__name__

"""Loads ONNX models, with one-line errors."""

from __future__ import annotations

import io
import reprlib
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import onnx
from google.protobuf.message import DecodeError
from onnx import helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.contrib.rewrite import claim_contrib
from rammer_mlir.frontends.onnx.external_data import Folders
from rammer_mlir.frontends.onnx.function_sizes import check_functions
from rammer_mlir.frontends.onnx.model import Model, first_line, separate_weights
from rammer_mlir.frontends.onnx.open_inputs import clear_unknown_sizes
from rammer_mlir.frontends.onnx.source_folders import ModelWithData, Source, without_folder
from rammer_mlir.frontends.onnx.sparse_tensors import write_dense
from rammer_mlir.frontends.onnx.tensor_data import TensorData, content_and_places
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, opset
from rammer_mlir.frontends.onnx.well_formed import (
    check_element_types,
    check_operators,
    check_subgraphs,
    check_texts,
)


def load(source: Source) -> Model:
    """Return a checked copy of a model, including its external data.

    Raises:
        ModelError: if the model is not valid ONNX, or if its file or external data cannot be read.
        UnsupportedError: if functions expand to too many nodes.
    """
    given, named = without_folder(source)
    if isinstance(given, onnx.ModelProto):
        return _checked(given, "the model", TensorData("the model", named))
    if isinstance(given, ModelWithData):
        data = TensorData("the model", named, memory=given.data)
        return _checked(given.proto, "the model", data)
    if isinstance(given, bytes):
        return _read(io.BytesIO(given), "the model", named)
    try:
        path = Path(given)
    except TypeError:
        path = None
    if path is None or given == "":
        raise ModelError(
            "expected a file, its bytes, an ONNX model or an MLIR module, found "
            f"{reprlib.repr(given)}"
        )
    with _opened(path) as file:
        return _read(file, f"'{path}'", (*named, path.parent))


def _checked(proto: onnx.ModelProto, name: str, data: TensorData) -> Model:
    """Return a checked copy of a model, with large weights separated from the graph.

    ``name`` is the model's name in messages; ``data`` reads data that is not in ``proto``.
    """
    _check_outputs(proto.graph, name)
    check_texts(proto, name)
    check_element_types(proto, name)
    check_functions(proto, name)
    _check_initializers(proto, name)
    model = separate_weights(proto, name, data)
    write_dense(model.graph, name)
    _import_onnx(model.proto)
    claim_contrib(model.proto)
    check_operators(model.proto)
    check_subgraphs(model.proto)
    clear_unknown_sizes(model.graph, name)
    _check(model, name)
    _require_opset(proto, name)
    return model


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    """Open a model's file for reading, in a ``with`` statement.

    Raises:
        ModelError: if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from error
    except ValueError as error:  # a path with a null character
        raise ModelError(f"cannot read {str(path)!r}: {error}") from error


def _read(file: IO[bytes], name: str, folders: Folders) -> Model:
    content, places = content_and_places(file)
    return _checked(_parse(content, name), name, TensorData(name, folders, file, places))


def _parse(content: bytes, name: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise ModelError(
            f"{name} is not an ONNX model, or is truncated: expected a serialized ModelProto"
        ) from error
    if not proto.ir_version or not proto.HasField("graph"):
        raise ModelError(f"{name} is not an ONNX model: expected a ModelProto with a graph")
    return proto


def _check_outputs(graph: onnx.GraphProto, name: str) -> None:
    if not graph.output:
        raise ModelError(f"{name} has no outputs: expected at least one")
    counts = Counter(value.name for value in graph.output)
    repeated = [f"'{output}'" for output, count in counts.items() if count > 1]
    if repeated:
        raise ModelError(
            f"{name} has the output {', '.join(repeated)} more than once: expected names that "
            "differ; copy the value with Identity"
        )


def _check_initializers(proto: onnx.ModelProto, name: str) -> None:
    known = set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
    for tensor in proto.graph.initializer:
        if tensor.data_type not in known:
            raise ModelError(
                f"{name}: initializer '{tensor.name}' has the unknown element type "
                f"{tensor.data_type}: expected one of ONNX's"
            )


def _import_onnx(proto: onnx.ModelProto) -> None:
    """Add ONNX's newest opset to the opset imports of a model that imports only other domains."""
    if all(entry.domain not in ONNX_DOMAINS for entry in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))


def _require_opset(proto: onnx.ModelProto, name: str) -> None:
    newest = onnx.defs.onnx_opset_version()
    if opset(proto) > newest:
        raise ModelError(
            f"{name} uses opset {opset(proto)}: expected at most {newest}, the newest that the "
            "installed onnx package knows"
        )


def _check(model: Model, name: str) -> None:
    model.proto.ir_version = max(model.proto.ir_version, 8)
    checked = onnx.ModelProto()
    checked.CopyFrom(model.proto)
    for value in (*checked.graph.input, *checked.graph.output):
        # The checker requires shapes here; they may be given or inferred, and checked, later.
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(checked)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelError(f"{name} is not a valid ONNX model: {first_line(error)}") from error

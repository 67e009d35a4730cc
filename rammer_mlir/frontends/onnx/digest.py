"""What identifies a model: the bytes that compiling it would read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError

from rammer_mlir.frontends.onnx.load import Source


def model_digest(source: Source) -> str | None:
    """Return the SHA-256 of a model and its external data; None if something cannot be read."""
    try:
        if isinstance(source, onnx.ModelProto):
            return hashlib.sha256(source.SerializeToString(deterministic=True)).hexdigest()
        if isinstance(source, bytes):
            return hashlib.sha256(source).hexdigest()
        return _file_digest(Path(source))
    except (OSError, DecodeError, EncodeError, ValueError):
        return None  # the compiler says what is wrong


def _file_digest(path: Path) -> str:
    content = path.read_bytes()
    found = hashlib.sha256(content)
    for place in sorted(_external_files(onnx.ModelProto.FromString(content).graph)):
        with (path.parent / place).open("rb") as file:
            data = hashlib.file_digest(file, "sha256")
        found.update(os.fsencode(place) + data.digest())
    return found.hexdigest()


def _external_files(graph: onnx.GraphProto) -> set[str]:
    return {
        entry.value
        for tensor in _tensors(graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.initializer:
                    yield from _tensors(inner)

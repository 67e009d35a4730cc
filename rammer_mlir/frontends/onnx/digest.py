"""Computes digests of models: hashes of the bytes that compilation would read."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import IO, Protocol

import onnx
from google.protobuf.message import DecodeError, EncodeError

from rammer_mlir.frontends.onnx.external_data import (
    Folders,
    Region,
    is_external,
    open_region,
    region_of,
)
from rammer_mlir.frontends.onnx.source_folders import ModelWithData, Source, without_folder
from rammer_mlir.frontends.onnx.tensor_data import content_and_places
from rammer_mlir.frontends.onnx.traversal import tensors_of_model


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


_PART = 1 << 20
"""Number of bytes per read of a file."""


def model_digest(source: Source) -> str | None:
    """Return the SHA-256 of a model and its external data, in hexadecimal.

    Return None if the model or a file of external data cannot be read.
    """
    given, folders = without_folder(source)
    try:
        if isinstance(given, onnx.ModelProto):
            found = hashlib.sha256(given.SerializeToString(deterministic=True))
            return _with_data(found, given, folders)
        if isinstance(given, ModelWithData):
            return _digest_with_memory(given)
        if isinstance(given, bytes):
            return _content_digest(io.BytesIO(given), folders)
        with Path(given).open("rb") as file:
            return _content_digest(file, (*folders, Path(given).parent))
    except (OSError, DecodeError, EncodeError, ValueError):
        return None  # the compiler reports the error


def _digest_with_memory(given: ModelWithData) -> str:
    found = hashlib.sha256(given.proto.SerializeToString(deterministic=True))
    for name, data in sorted(given.data.items()):
        found.update(repr((name, data.nbytes)).encode())
        found.update(data)
    return found.hexdigest()


def _content_digest(file: IO[bytes], folders: Folders) -> str:
    content, places = content_and_places(file)
    found = hashlib.sha256(b"" if places else content)
    if places:
        file.seek(0)
        while part := file.read(_PART):
            found.update(part)
    if not folders:  # no external data is possible
        return found.hexdigest()
    return _with_data(found, onnx.ModelProto.FromString(content), folders)


def _with_data(found: _Hash, proto: onnx.ModelProto, folders: Folders) -> str:
    """Add a model's external data to the hash ``found``; return the hash in hexadecimal.

    ``found`` already contains the serialized model. ``folders`` are the folders that may contain
    the files of external data; without folders, no external data is added.
    """
    tensors = tensors_of_model(proto) if folders else ()
    for region in sorted({region_of(tensor) for tensor in tensors if is_external(tensor)}):
        found.update(_region_digest(folders, region))
    return found.hexdigest()


def _region_digest(folders: Folders, region: Region) -> bytes:
    found = hashlib.sha256(repr(region).encode())
    left = region.length
    with open_region(folders, region) as file:
        while left:
            part = file.read(min(left, _PART))
            if not part:
                raise ValueError(f"'{region.location}' became shorter")
            found.update(part)
            left -= len(part)
    return found.digest()

"""What identifies a model: the bytes that compiling it would read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError

from rammer_mlir.frontends.onnx.external_data import Region, is_external, open_region, region_of
from rammer_mlir.frontends.onnx.load import Source
from rammer_mlir.frontends.onnx.walk import tensors_of_model

_PART = 1 << 20
"""Bytes that are read at once."""


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
    tensors = tensors_of_model(onnx.ModelProto.FromString(content))
    for region in sorted({region_of(tensor) for tensor in tensors if is_external(tensor)}):
        found.update(_region_digest(path.parent, region))
    return found.hexdigest()


def _region_digest(folder: Path, region: Region) -> bytes:
    found = hashlib.sha256(repr(region).encode())
    left = region.length
    with open_region(folder, region) as file:
        while left:
            part = file.read(min(left, _PART))
            if not part:
                raise ValueError(f"'{region.location}' became shorter")
            found.update(part)
            left -= len(part)
    return found.digest()

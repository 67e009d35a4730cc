"""Reads tensor data from files, only beneath the model's folder or a folder that the caller names.

The model names the file, and may come from an untrusted source. After resolving symbolic links, the
file must therefore be a regular file beneath one of these folders, and long enough for the tensor:
endless devices, pipes and other users' secrets are never read.
"""

from __future__ import annotations

import os
import reprlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import onnx

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.tensors import num_bytes

Folders = Sequence[Path]
"""Folders for data files: the first folder that has the file is used.

Symbolic links may lead from one of these folders to another, but not out of them.
"""


@dataclass(frozen=True, order=True)
class Region:
    """A byte range of a file: ``length`` bytes from byte ``offset`` on.

    ``location`` is the file's path relative to a data folder.
    """

    location: str
    offset: int
    length: int


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's data is in an external file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def region_of(tensor: onnx.TensorProto) -> Region:
    """Return the byte range of a tensor's data in its external file.

    Raises:
        ValueError: if the tensor's entries ``external_data`` are invalid.
    """
    entries = {_text(entry.key): _text(entry.value) for entry in tensor.external_data}
    needed = num_bytes(tensor)
    offset = _number("offset", entries.get("offset", "0"))
    length = _number("length", entries.get("length", str(needed)))
    if length != needed:
        raise ValueError(f"the model gives it {length} bytes, its shape and type {needed}")
    return Region(entries.get("location", ""), offset, length)


def _text(found: str | bytes) -> str:
    """Return ``found`` if it is a ``str``.

    Protobuf reads a string of invalid UTF-8 as ``bytes``; for such a string, raise ValueError.
    """
    if isinstance(found, bytes):
        raise ValueError(f"the model names it by {found!r}, which is no text")
    return found


def _number(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ValueError(f"its {key} is {reprlib.repr(text)}, not a number of bytes")
    return int(text)


def open_region(folders: Folders, region: Region) -> IO[bytes]:
    """Open the file of a region, and seek to the region's first byte.

    Raises:
        OSError: if the system refuses to open the file.
        ValueError: if the file is not a regular file beneath the folders, or too short.
    """
    path = _path_beneath(folders, region.location)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size < region.offset + region.length:
        file.close()
        raise ValueError(
            f"the file has {found.st_size} bytes, and {region.length} at {region.offset} are "
            "asked for"
        )
    file.seek(region.offset)
    return file


def _path_beneath(folders: Folders, location: str) -> Path:
    shown, place = reprlib.repr(location), Path(location)
    if not location or "\0" in location or place.is_absolute() or ".." in place.parts:
        raise ValueError(f"{shown} is no path from the model's folder on")
    roots = [folder.resolve() for folder in folders]
    root = next((root for root in roots if os.path.lexists(root / place)), roots[0])
    try:
        path = (root / place).resolve(strict=True)
    except RuntimeError as error:  # a cycle of links
        raise ValueError(f"{shown} is a link to itself") from error
    if not any(path.is_relative_to(root) for root in roots):
        raise ValueError(f"{shown} is a link to another folder")
    if not path.is_file():
        raise ValueError(f"{shown} is not a regular file")
    return path


def read_external(tensor: onnx.TensorProto, model: str, folders: Folders) -> bytes:
    """Return a tensor's data from its file.

    Args:
        tensor: a tensor whose data is in an external file; not modified.
        model: name of the model in messages.
        folders: folders that may contain the file.

    Raises:
        ModelError: if the data cannot be read.
    """
    if not folders:
        raise ModelError(
            f"{model}: tensor '{tensor.name}' has external data: give the model's path, so that "
            "the data is found, or the folder that has it (external_data, --external-data)"
        )
    try:
        region = region_of(tensor)
        with open_region(folders, region) as file:
            return file.read(region.length)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelError(
            f"{model}: the external data of tensor '{tensor.name}' cannot be read ({reason}): "
            "expected a regular file beside the model, or in a folder beneath it, that holds the "
            "whole tensor; name another folder with external_data, --external-data"
        ) from error


def take_external(tensor: onnx.TensorProto, model: str, folders: Folders) -> None:
    """Copy a tensor's external data into the tensor, in place, and drop its reference to the file.

    Args:
        tensor: a tensor whose data is in an external file; modified in place.
        model: name of the model in messages.
        folders: folders that may contain the file.

    Raises:
        ModelError: if the data cannot be read.
    """
    tensor.raw_data = read_external(tensor, model, folders)
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]

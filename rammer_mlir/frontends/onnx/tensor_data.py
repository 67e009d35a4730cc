"""Defines ``TensorData``: data of tensors in external files, in the model's file, or in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

import onnx

from rammer_mlir.frontends.onnx.external_data import (
    Folders,
    is_external,
    read_external,
    take_external,
)
from rammer_mlir.frontends.onnx.large_data import (
    WORTH_SPLITTING,
    DataPlaces,
    NotPlainError,
    Place,
    split,
)


@dataclass(frozen=True)
class TensorData:
    """Reader of tensor data that is outside of the parsed model's tensors.

    Attributes:
        name: name of the model in messages.
        folders: folders that may contain the files of external data.
        file: file of the serialized model; None if there is none.
        places: byte ranges in ``file`` of the data that the parsed model lacks, by initializer
            index.
        memory: bytes of initializers that another library owns, by initializer name.
    """

    name: str
    folders: Folders
    file: IO[bytes] | None = None
    places: DataPlaces = field(default_factory=dict[int, Place])
    memory: Mapping[str, memoryview] = field(default_factory=dict[str, memoryview])

    def of_initializer(self, number: int, tensor: onnx.TensorProto) -> bytes | memoryview | None:
        """Return the data of the graph's initializer of index ``number``.

        Return None if the initializer itself, ``tensor``, contains the data.

        Raises:
            ModelError: if the data cannot be read.
        """
        if tensor.name in self.memory:
            return self.memory[tensor.name]
        if is_external(tensor):
            return read_external(tensor, self.name, self.folders)
        if self.file is None or number not in self.places:
            return None
        self.file.seek(self.places[number].begin)
        return self.file.read(self.places[number].end - self.places[number].begin)

    def take(self, tensor: onnx.TensorProto) -> None:
        """Copy a tensor's external data into the tensor, in place.

        Raises:
            ModelError: if the data cannot be read.
        """
        if is_external(tensor):
            take_external(tensor, self.name, self.folders)


def content_and_places(file: IO[bytes]) -> tuple[bytes, DataPlaces]:
    """Return a serialized model, and the byte ranges in ``file`` of the data that it lacks.

    If the file is large, the returned model lacks the data of large initializers. The second result
    has the byte range of this data, by index of the initializer. Otherwise the model contains all
    data, and the second result is empty.

    Raises:
        OSError: if the file cannot be read.
    """
    try:
        if file.seek(0, os.SEEK_END) >= WORTH_SPLITTING:
            return split(file)
    except (NotPlainError, OSError):  # an OSError if it is a pipe
        pass
    places: Mapping[int, Place] = {}
    if file.seekable():
        file.seek(0)
    return file.read(), places

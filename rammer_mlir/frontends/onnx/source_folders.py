"""Defines the types in which users pass models, with or without a folder of external data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from rammer_mlir.errors import OptionError
from rammer_mlir.frontends.onnx.external_data import Folders


@dataclass(frozen=True)
class ModelWithData:
    """A model whose large initializers are in another library's memory.

    Attributes:
        proto: the model, in which the large initializers are external data without a location.
        data: bytes of the large initializers by name, encoded as ONNX's ``raw_data``: row-major,
            little endian. The memory must not change.
    """

    proto: onnx.ModelProto
    data: Mapping[str, memoryview]

    def whole(self) -> onnx.ModelProto:
        """Return a copy of ``proto`` that includes the data of all initializers."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        for tensor in copy.graph.initializer:
            if tensor.name in self.data:
                tensor.ClearField("data_location")
                tensor.raw_data = self.data[tensor.name].tobytes()
        return copy


PlainSource = str | os.PathLike[str] | bytes | onnx.ModelProto | ModelWithData
"""A path, a serialized model, or a model."""


@dataclass(frozen=True)
class SourceWithFolder:
    """A model, and a folder with its external data.

    External data may also be in the folder of the model's file.
    """

    model: PlainSource
    folder: Path


Source = PlainSource | SourceWithFolder


def with_folder(model: PlainSource, folder: str | os.PathLike[str] | None, name: str) -> Source:
    """Return a model with a folder of external data, or the model itself if the folder is None.

    Args:
        model: the model.
        folder: folder of data files.
        name: name of the option in messages.

    Raises:
        OptionError: if the folder does not exist.
    """
    if folder is None:
        return model
    path = Path(folder)
    try:
        is_folder = path.is_dir()
    except ValueError:  # a null character
        is_folder = False
    if not is_folder:
        raise OptionError(f"{name}: expected a folder, found {str(folder)!r}; give one that exists")
    return SourceWithFolder(model, path)


def without_folder(source: Source) -> tuple[PlainSource, Folders]:
    """Return a source's model, and the user's folder of external data as a tuple of one element.

    The tuple is empty if the source is a model without such a folder.
    """
    if isinstance(source, SourceWithFolder):
        return source.model, (source.folder,)
    return source, ()

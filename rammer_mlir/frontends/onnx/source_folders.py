"""What a model may be given as, and where the files of its external data are."""

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
    """A model whose large initializers are in memory that another library owns.

    Attributes:
        proto: says of these initializers that their data is external, and not where.
        data: their bytes by name, in ONNX's raw form: row-major, little endian. Nobody changes
            them.
    """

    proto: onnx.ModelProto
    data: Mapping[str, memoryview]

    def whole(self) -> onnx.ModelProto:
        """Return a model that holds all data itself, as a copy."""
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
    """A model, and a folder with files of its external data; those beside it are found as well."""

    model: PlainSource
    folder: Path


Source = PlainSource | SourceWithFolder


def with_folder(model: PlainSource, folder: str | os.PathLike[str] | None, name: str) -> Source:
    """Return a model whose external data is in a folder, or the model itself if that is None.

    Args:
        model: the model.
        folder: has files of data.
        name: what messages call the option that gives the folder.

    Raises:
        OptionError: if there is no such folder.
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
    """Return the model itself, and the folders that its user names."""
    if isinstance(source, SourceWithFolder):
        return source.model, (source.folder,)
    return source, ()

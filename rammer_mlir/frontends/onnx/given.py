"""What a model may be given as, and where the files of its external data are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import onnx

from rammer_mlir.errors import OptionError
from rammer_mlir.frontends.onnx.external_data import Folders

PlainSource = str | os.PathLike[str] | bytes | onnx.ModelProto
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

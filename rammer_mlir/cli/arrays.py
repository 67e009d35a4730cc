"""Read and write ``.npz`` files of named arrays, for the command-line tools."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.support.atomic_file import open_atomically

_NOT_ARRAYS = (
    ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""Exceptions that reading a damaged or encrypted .npz file can raise."""


def each_array(outputs: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield the name and the array of each output.

    If output ``y`` is a list of arrays, they are named ``y/0``, ``y/1`` and so on. An output that
    is None is left out.
    """
    for name, value in outputs.items():
        if isinstance(value, list):
            values = cast("list[NDArray[np.generic]]", value)
            yield from ((f"{name}/{number}", each) for number, each in enumerate(values))
        elif value is not None:
            yield name, value


def read_arrays(name: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays in the ``.npz`` file ``name``, keyed by their names.

    Raises:
        InputError: if the file cannot be read, or is not an ``.npz`` file of arrays.
    """
    try:
        loaded = np.load(name, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise InputError(f"'{name}' is one array: expected an .npz file with arrays by name")
        with loaded as archive:
            return {key: archive[key] for key in archive.files}
    except OSError as error:
        raise InputError(f"cannot read '{name}': {error.strerror or error}") from error
    except _NOT_ARRAYS as error:
        raise InputError(
            f"'{name}' is not an .npz file of arrays ({error}): write it with numpy.savez, and "
            "dtypes that NumPy lacks as bytes"
        ) from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write named arrays to an ``.npz`` file atomically.

    An existing file is replaced when the new file is complete.
    """
    # Not by ``numpy.savez``, whose own parameters could not be names of arrays.
    with open_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _readable(array), allow_pickle=False)


def _readable(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array that ``numpy.load`` can read: elements of ml_dtypes' dtypes as raw bytes."""
    is_known = array.dtype.isbuiltin == 1
    return array if is_known else array.view(np.dtype(f"V{array.dtype.itemsize}"))

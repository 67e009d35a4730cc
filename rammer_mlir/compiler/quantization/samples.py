"""Reads calibration data: samples of a model's inputs, from a file or as arrays."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.programs.signature import TensorSpec

Array = NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """Calibration data: an array for each of a model's inputs, by the input's name.

    Attributes:
        arrays: the arrays, each with the values of its input in all samples. For an input of shape
            ``shape``, an array has the shape ``[samples, *shape]``; or the array is a concatenation
            of all samples along the input's first dimension.
        digest: identifies the arrays in cache keys.
    """

    arrays: Mapping[str, Array] = field(repr=False)
    digest: str

    @staticmethod
    def of(given: object) -> Samples:
        """Return samples from arrays by name, or from an ``.npz`` file.

        Raises:
            InputError: if there is no array, or an array has non-numbers or non-finite numbers.
        """
        if isinstance(given, Mapping):
            # Copies, since models of open shapes are compiled later, by the values of today.
            arrays = {str(k): np.array(v) for k, v in cast("Mapping[Any, Any]", given).items()}
        else:
            arrays = _read(cast("str | os.PathLike[str]", given))
        if not arrays:
            raise InputError("calibration: expected an array for each input, found none")
        for name, array in arrays.items():
            _check_numbers(name, array)
        return Samples(arrays, _digest(arrays))

    def feeds(self, inputs: Sequence[TensorSpec]) -> list[dict[str, Array]]:
        """Return the model's inputs by name, for each sample.

        Raises:
            InputError: if there is no sample; if an array is missing, belongs to no input, or has
                the wrong shape or dtype; or if the arrays have different counts of samples.
        """
        known = [spec.name for spec in inputs]
        for name in self.arrays:
            if name not in known:
                raise InputError(
                    f"calibration: expected arrays for {', '.join(known)}, found '{name}'; leave "
                    "it out"
                )
        stacked = {spec.name: self._stacked(spec) for spec in inputs}
        numbers = {name: len(array) for name, array in stacked.items()}
        if len(set(numbers.values())) > 1:
            found = ", ".join(f"{number} for '{name}'" for name, number in numbers.items())
            raise InputError(
                f"calibration: expected equally many samples for each input, found {found}"
            )
        count = next(iter(numbers.values()), 0)
        if not count:
            raise InputError("calibration: expected at least one sample, found none")
        return [{name: array[n] for name, array in stacked.items()} for n in range(count)]

    def _stacked(self, spec: TensorSpec) -> Array:
        array = self.arrays.get(spec.name)
        if array is None:
            found = ", ".join(f"'{name}'" for name in self.arrays)
            raise InputError(
                f"calibration: expected an array for the input '{spec.name}', found {found}; add it"
            )
        if array.dtype != spec.dtype:
            raise InputError(
                f"calibration: expected {spec.dtype} for '{spec.name}', found {array.dtype}; "
                "convert it"
            )
        if array.shape[1:] == spec.shape:
            return np.ascontiguousarray(array)
        batch = spec.shape[0] if spec.shape else 0
        is_joined = batch and array.shape[1:] == spec.shape[1:] and array.shape[0] % batch == 0
        if not is_joined or array.ndim != len(spec.shape):
            sizes = "x".join(map(str, spec.shape)) or "1"
            raise InputError(
                f"calibration: expected samples of shape {sizes} for '{spec.name}', found an array "
                f"of {'x'.join(map(str, array.shape)) or 'no dimensions'}; stack them along a "
                "first dimension"
            )
        return np.ascontiguousarray(array).reshape(-1, *spec.shape)


def _read(path: str | os.PathLike[str]) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError as error:
        raise InputError(
            f"calibration: expected an .npz file, found no file '{os.fspath(path)}'"
        ) from error
    except (OSError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"calibration: expected arrays in '{os.fspath(path)}', found no .npz file; write one "
            "with numpy.savez"
        ) from error


def _check_numbers(name: str, array: Array) -> None:
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise InputError(f"calibration: expected numbers for '{name}', found {array.dtype}")
    bad = array.size - int(np.count_nonzero(np.isfinite(array)))
    if bad:
        raise InputError(
            f"calibration: expected finite numbers for '{name}', found {bad} NaN or infinite; "
            "leave these samples out"
        )


def _digest(arrays: Mapping[str, Array]) -> str:
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(repr((name, str(array.dtype), array.shape)).encode())
        found.update(array.tobytes())
    return found.hexdigest()

"""Defines the names, shapes and element types of a model's inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name in the model, static shape and NumPy element type."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def num_bytes(self) -> int:
        """Size in bytes of the tensor in row-major order without gaps."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __str__(self) -> str:
        """Return name, shape and dtype as text, such as ``'x' 1x3 float32``."""
        return f"'{self.name}' {'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a compiled model, in the model's order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

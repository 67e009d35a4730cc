"""What every compiled model offers, whatever device runs it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.signature import Signature
from rammer_mlir.runtime.feeds import by_position

Array = NDArray[np.generic]


class CompiledModel(ABC):
    """A compiled model: its description, calls on arrays, and the life of its resources."""

    def __init__(self, image: CpuImage | GpuImage, stats: Mapping[str, Any] | None) -> None:
        """Describe a program.

        Args:
            image: the program's data.
            stats: what the compiler measured: seconds by stage, sizes.
        """
        self._description = image
        self.stats: dict[str, Any] = dict(stats or {})

    @property
    def signature(self) -> Signature:
        """Names, shapes and types of inputs and outputs."""
        return self._description.signature

    @property
    def summary(self) -> str:
        """The schedule in words."""
        return self._description.summary

    @property
    def num_veus(self) -> int:
        """VEUs that run the program: threads of a CPU, resident blocks of a GPU."""
        return self._description.num_veus

    @property
    @abstractmethod
    def target(self) -> str:
        """What it is compiled for: ``cpu``, ``nvvm:sm_90``."""

    @abstractmethod
    def run(self, feeds: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the model on arrays by input name; return arrays by output name."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an artifact that ``rammer_mlir.load`` reads without a compiler."""

    @abstractmethod
    def close(self) -> None:
        """Give threads or memory back; the model cannot run any more."""

    def __call__(self, *arrays: Any) -> Any:
        """Run on arrays in the signature's order; return one array, or a tuple of several."""
        outputs = self.run(by_position(self.signature, arrays))
        values = tuple(outputs.values())
        return values[0] if len(values) == 1 else values

    def __enter__(self) -> Self:
        """Use as a context manager that closes the model."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the model."""
        self.close()

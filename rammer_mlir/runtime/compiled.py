"""Defines the interface of compiled models, independent of the device."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ArtifactError, OptionError
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.signature import Signature
from rammer_mlir.runtime.artifact import Artifact, write_artifact
from rammer_mlir.runtime.feeds import by_position
from rammer_mlir.runtime.signatures import PemKey, signer_of
from rammer_mlir.support.paths import path_of
from rammer_mlir.timeline.spans import Timeline

Array = NDArray[np.generic]

REPLACED = "replaced"
"""Key in ``stats``: the reasons why the host replaces external modules, by module name."""


class RunnableModel(ABC):
    """A compiled model that runs on arrays by name: the base class of all kinds of models.

    A model that ``rammer_mlir.load`` returned can be pickled and copied: the pickle contains only
    the path of the file, which must exist unchanged when the pickle is loaded. Pickles are
    therefore small, and processes share the file's weights. A copy is loaded from the file again:
    its threads are not pinned, it has only the specializations that the file contains, and it runs
    on the GPU with the same index.
    """

    reload: Callable[[], RunnableModel] | None = None
    """Loads the model from its file again; None if the model was not loaded from a file."""

    @property
    @abstractmethod
    def target(self) -> str:
        """Target that the model is compiled for, for example ``cpu`` or ``nvvm:sm_90``."""

    @property
    @abstractmethod
    def num_veus(self) -> int:
        """Number of vEUs that run the program: threads of a CPU, resident blocks of a GPU."""

    @property
    @abstractmethod
    def policy(self) -> str | None:
        """Name of the policy that scheduled the program; None if unknown."""

    @property
    @abstractmethod
    def signature(self) -> Signature | OpenSignature:
        """Names, shapes and dtypes of inputs and outputs."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """Description of the schedule as text for users."""

    @property
    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Compiler statistics by name; ``seconds`` has the seconds that each stage took."""

    @property
    @abstractmethod
    def input_names(self) -> Sequence[str]:
        """Names of the inputs, in the model's order."""

    @abstractmethod
    def run(self, feeds: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the model on arrays by input name; return arrays by output name.

        ``out`` has arrays that receive outputs, by output name. Each output without an array in
        ``out`` gets a new array.
        """

    @abstractmethod
    def save(self, path: str | os.PathLike[str], *, sign: PemKey | None = None) -> None:
        """Write an artifact that ``rammer_mlir.load`` reads without a compiler.

        ``sign`` is the private key for a signature; None for no signature.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the model's threads and memory; the model cannot run afterwards."""

    def use_threads(self, count: int | None) -> None:
        """Run the vEUs on ``count`` threads of the model's own; None stands for shared threads.

        Raises:
            OptionError: if the number is invalid, or the target is not a CPU.
        """
        raise OptionError(
            f"use_threads: expected the target cpu, found {self.target}; leave it out"
        )

    def pin(self, cores: Sequence[int] | None) -> None:
        """Pin each thread of the model to a core of ``cores``; None removes the pinning.

        Raises:
            OptionError: if the number of cores is not the number of threads, or the target is not a
                CPU.
        """
        raise OptionError(f"pin: expected the target cpu, found {self.target}; leave it out")

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> Timeline:
        """Run once and return the measured times of each vEU's steps.

        ``feeds`` are arrays by input name. ``title`` is the timeline's title for users.

        Raises:
            OptionError: if the target is not a CPU, or the host runs the model in parts.
        """
        raise OptionError(
            f"timeline: expected the target cpu, whose vEUs record times, found {self.target}; "
            "leave it out"
        )

    def __call__(self, *arrays: Any) -> Any:
        """Run on arrays in the signature's order; return one output, or a tuple of several."""
        outputs = self.run(by_position(self.input_names, arrays))
        values = tuple(outputs.values())
        return values[0] if len(values) == 1 else values

    def __repr__(self) -> str:
        """Return one line with class, inputs, outputs, target, policy and number of vEUs."""
        parts = {
            "inputs": ", ".join(map(str, self.signature.inputs)) or "none",
            "outputs": ", ".join(map(str, self.signature.outputs)),
            "target": self.target,
            **({} if self.policy is None else {"policy": self.policy}),
            "vEUs": str(self.num_veus),
        }
        text = "; ".join(f"{name}: {value}" for name, value in parts.items())
        return f"{type(self).__name__}({' '.join(text.split())})"

    def __reduce__(self) -> tuple[Callable[[], RunnableModel], tuple[()]]:
        """Support pickling: return a function that loads the model's file again, and no arguments.

        Raises:
            ArtifactError: if the model was compiled in this process, or is a part of another one.
        """
        if self.reload is None:
            raise ArtifactError(
                f"cannot pickle or copy this {type(self).__name__}: expected a model that "
                "rammer_mlir.load returned, found one compiled here, or a part of a model; save "
                "the whole model, and load the file"
            )
        return self.reload, ()

    def __enter__(self) -> Self:
        """Enter a context that closes the model at its end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the model."""
        self.close()


class CompiledModel(RunnableModel):
    """A compiled model of static shapes."""

    def __init__(self, image: CpuImage | GpuImage, stats: Mapping[str, Any] | None) -> None:
        """Store a program's data.

        Args:
            image: the program's data: schedule, weights, signature and memory sizes.
            stats: compiler statistics by name, such as the seconds of each stage; may be None.
        """
        self._description = image
        self._stats: dict[str, Any] = dict(stats or {})

    @property
    def stats(self) -> dict[str, Any]:
        """Compiler statistics by name; ``seconds`` has the seconds that each stage took.

        The dict is not a copy: the compiler adds entries to it.
        """
        return self._stats

    @property
    def image(self) -> CpuImage | GpuImage:
        """The program's data: schedule, weights, signature and memory sizes."""
        return self._description

    @property
    def fallback(self) -> CompiledModel | None:
        """The same model compiled without foreign code; None if there is none.

        It replaces this model on machines that lack the foreign code.
        """
        return None

    @property
    def policy(self) -> str | None:
        """Name of the policy that scheduled the program; None if unknown."""
        return self.stats.get("policy")

    @property
    def signature(self) -> Signature:
        """Names, shapes and dtypes of inputs and outputs."""
        return self._description.signature

    @property
    def summary(self) -> str:
        """Description of the schedule as text: counts, predicted time and memory."""
        return self._description.summary

    @property
    def num_veus(self) -> int:
        """Number of vEUs that run the program: threads of a CPU, resident blocks of a GPU."""
        return self._description.num_veus

    @property
    def input_names(self) -> Sequence[str]:
        """Names of the inputs, in the model's order."""
        return [spec.name for spec in self.signature.inputs]

    @abstractmethod
    def artifact(self) -> Artifact:
        """Return the content of the file that ``save`` writes."""

    @abstractmethod
    def use_constants(self, constants: Constants) -> None:
        """Take the weights from ``constants``, which have the same values in other memory.

        Call this only before the first run, because runs keep addresses of the weights.
        """

    def save(self, path: str | os.PathLike[str], *, sign: PemKey | None = None) -> None:
        """Write an artifact that ``rammer_mlir.load`` reads without a compiler.

        Args:
            path: the file.
            sign: an Ed25519 private key, as PEM bytes or the path of a PEM file, that signs the
                artifact; None for no signature.

        Raises:
            TargetError: if no linker is found.
            ArtifactError: if the file cannot be written.
            OptionError: if the path or key is invalid, or the model is compiled for the emulator.
            MissingPackageError: if the package for signatures is not installed.
        """
        signer = None if sign is None else signer_of(sign)
        write_artifact(path_of(path, "save"), self.artifact(), signer)

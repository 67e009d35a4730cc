"""Supplies the specializations of a loaded model from its artifact; never compiles new ones.

The classes implement the protocol ``Specializer``: they return the program for given input shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rammer_mlir.errors import InputError
from rammer_mlir.open_models.artifact import Specialization, Specializations
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.pool import Key
from rammer_mlir.open_models.specializer import Made
from rammer_mlir.programs.dimensions import Shapes, bind, sizes_text
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.compiled import Array, CompiledModel, RunnableModel
from rammer_mlir.runtime.gpu.driver_loading import check_device
from rammer_mlir.runtime.loader import open_artifact


def open_specializations(
    path: Path, found: Specializations, device: int, *, runs: bool = True
) -> OpenModel:
    """Load all specializations of an artifact into a model with open dimensions.

    Args:
        path: the artifact, for messages.
        found: the content of the artifact.
        device: index of the GPU that runs GPU programs.
        runs: False if the caller will only print properties of the model; then packages that a run
            needs may be missing.

    Raises:
        OptionError: if no GPU has this index.
    """
    if isinstance(found.programs[0].artifact.image, GpuImage):
        check_device(device)
    held = HeldPrograms(path, found, device, runs)
    model = OpenModel(found.signature, held, len(found.programs))
    for program in found.programs:
        model.prepare(shapes=program.shapes)
    return model


@dataclass(frozen=True)
class HeldPrograms:
    """A ``Specializer`` that takes the programs of a model from its artifact, and compiles none.

    Attributes:
        path: the artifact, for messages.
        held: the content of the artifact.
        device: index of the GPU that runs GPU programs.
        runs: False if the caller will only print properties of the programs; then packages that a
            run needs may be missing.
    """

    path: Path
    held: Specializations
    device: int
    runs: bool = True

    @property
    def target(self) -> str:
        """The target of all programs."""
        image = self.held.programs[0].artifact.image
        return image.target

    @property
    def policy(self) -> str | None:
        """The policy of all programs; None if the file does not record it."""
        return self.held.programs[0].artifact.stats.get("policy")

    @property
    def num_veus(self) -> int:
        """Number of vEUs of each program."""
        return self.held.programs[0].artifact.image.num_veus

    @property
    def makes_new(self) -> bool:
        """Always False: only the programs of the file exist."""
        return False

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> CompiledModel:
        """Return the program for the input shapes ``shapes``; ``values`` is not used.

        Raises:
            InputError: if the artifact has no program for these shapes.
        """
        for program in self.held.programs:
            if program.shapes == shapes:
                return open_artifact(self.path, program.artifact, self.device, runs=self.runs)
        held = "; ".join(self._text(program) for program in self.held.programs)
        raise InputError(
            f"'{self.path}' has no program: expected one of its {held}; compile the model for "
            "these sizes too (--dim), or prepare and save it again"
        )

    def _text(self, program: Specialization) -> str:
        return sizes_text(bind(self.held.signature, program.shapes).sizes)


@dataclass(frozen=True)
class HeldModels:
    """A ``Specializer`` that takes specializations from the artifact of a composed model.

    The specializations are those of one model with open dimensions, which is a part of the composed
    model, or the whole model. No specialization is compiled.

    Attributes:
        path: the artifact, for messages.
        made: the settings that all specializations were compiled with.
        held: the specializations by key. A key has the shapes of all inputs, then the bytes of each
            input whose elements determine shapes.
    """

    path: Path
    made: Made
    held: Mapping[Key, RunnableModel]

    @property
    def target(self) -> str:
        """The target for which all specializations are compiled, such as ``cpu``."""
        return self.made.target

    @property
    def policy(self) -> str | None:
        """The policy of all specializations; None if the file does not record it."""
        return self.made.policy

    @property
    def num_veus(self) -> int:
        """Number of vEUs of each specialization."""
        return self.made.num_veus

    @property
    def makes_new(self) -> bool:
        """Always False: only the specializations of the artifact exist."""
        return False

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> RunnableModel:
        """Return the program for given input shapes.

        ``values`` are the arrays of the inputs whose elements determine shapes, by name.

        Raises:
            InputError: if the artifact has no program for these shapes and arrays.
        """
        key: Key = (*shapes.values(), *(value.tobytes() for value in values.values()))
        if key not in self.held:
            raise InputError(
                f"'{self.path}' has no program for a part of the model: expected inputs like those "
                "of the runs before it was saved; run the model on these too, and save it again"
            )
        return self.held[key]

"""Loading artifacts, of one program or of several."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rammer_mlir.errors import ArtifactError, InputError
from rammer_mlir.open_models.artifact import (
    SEVERAL_VERSION,
    Specialization,
    Specializations,
    read_specializations,
)
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.programs.dimensions import Shapes, bind, sizes_text
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.artifact import Archive, Artifact, open_archive, read_program
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.gpu.opening import check_device
from rammer_mlir.runtime.loader import open_artifact
from rammer_mlir.runtime.seal import SEAL
from rammer_mlir.runtime.signatures import PemKey, read_key, verifier_of
from rammer_mlir.support.paths import path_of


def load(
    path: str | os.PathLike[str],
    device: int = 0,
    *,
    mapped: bool = True,
    verify: PemKey | None = None,
) -> Executable | GpuExecutable | OpenModel:
    """Load a compiled model.

    Args:
        path: the artifact.
        device: number of the GPU that a GPU's programs run on.
        mapped: map large constants into memory.
        verify: the public key that has to have signed the artifact.

    Raises:
        ArtifactError: if the file is missing, foreign, corrupt, made for another machine, or not
            signed as it has to be.
        OptionError: if it is no path or no key, or the GPU's number is none.
    """
    path = path_of(path, "load")
    key = None if verify is None else read_key(verify, "verify")
    verifier = None if key is None else verifier_of(key)
    with open_archive(path, mapped=mapped, verify=verifier) as archive:
        found, seal = _read(archive), archive.manifest[SEAL]
    model = _opened(path, found, device)
    model.reload = ArtifactFile(path.resolve(), device, mapped, seal, key)
    return model


@dataclass(frozen=True)
class ArtifactFile:
    """Loads a model again from the file that it was loaded from; what its pickle holds."""

    path: Path
    device: int
    mapped: bool
    seal: str
    verify: PemKey | None = None

    def __call__(self) -> Executable | GpuExecutable | OpenModel:
        """Load the model again.

        Raises:
            ArtifactError: as ``load`` does, or if the file holds another model now.
        """
        model = load(self.path, self.device, mapped=self.mapped, verify=self.verify)
        if model.reload != self:
            model.close()
            raise ArtifactError(
                f"'{self.path}' was replaced: expected the file that the pickled model was loaded "
                "from, found another model; load it, and pickle that one"
            )
        return model


def _read(archive: Archive) -> Artifact | Specializations:
    if archive.manifest["version"] != SEVERAL_VERSION:
        return read_program(archive)
    return read_specializations(archive)


def _opened(
    path: Path, found: Artifact | Specializations, device: int
) -> Executable | GpuExecutable | OpenModel:
    """Make what a file holds ready to run."""
    if not isinstance(found, Specializations):
        return open_artifact(path, found, device)
    if isinstance(found.programs[0].artifact.image, GpuImage):
        check_device(device)
    held = HeldPrograms(path, found, device)
    model = OpenModel(found.signature, held, len(found.programs))
    for program in found.programs:
        model.prepare(shapes=program.shapes)
    return model


@dataclass(frozen=True)
class HeldPrograms:
    """The programs that an artifact holds, and no other ones."""

    path: Path
    held: Specializations
    device: int

    @property
    def target(self) -> str:
        """The target of all programs."""
        image = self.held.programs[0].artifact.image
        return image.target

    @property
    def policy(self) -> str | None:
        """The policy of all programs; None if the file does not say it."""
        return self.held.programs[0].artifact.stats.get("policy")

    @property
    def num_veus(self) -> int:
        """The vEUs of all programs."""
        return self.held.programs[0].artifact.image.num_veus

    def make(self, shapes: Shapes) -> CompiledModel:
        """Return the program for inputs of these shapes.

        Raises:
            InputError: if the artifact lacks it.
        """
        for program in self.held.programs:
            if program.shapes == shapes:
                return open_artifact(self.path, program.artifact, self.device)
        held = "; ".join(self._text(program) for program in self.held.programs)
        raise InputError(
            f"'{self.path}' has no program: expected one of its {held}; compile the model for "
            "these sizes too (--dim), or prepare and save it again"
        )

    def _text(self, program: Specialization) -> str:
        return sizes_text(bind(self.held.signature, program.shapes).sizes)

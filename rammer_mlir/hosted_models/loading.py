"""Loads artifacts of all kinds of models: single programs, specializations and composed models."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rammer_mlir.errors import ArtifactError
from rammer_mlir.hosted_models.artifact import read_tree
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.artifact import SEVERAL_VERSION, read_specializations
from rammer_mlir.open_models.entries import EntriesModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.stored_specializations import open_specializations
from rammer_mlir.open_models.tree import TREE_VERSION
from rammer_mlir.runtime.artifact import Archive, open_archive, read_program
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.loader import open_artifact
from rammer_mlir.runtime.seal import SEAL
from rammer_mlir.runtime.signatures import PemKey, read_key, verifier_of
from rammer_mlir.support.paths import path_of

LoadedModel = Executable | GpuExecutable | OpenModel | HostedModel | EntriesModel
"""Kinds of models that an artifact can contain."""


def load(
    path: str | os.PathLike[str],
    device: int = 0,
    *,
    mapped: bool = True,
    verify: PemKey | None = None,
    runs: bool = True,
) -> LoadedModel:
    """Load a compiled model from an artifact.

    Args:
        path: the artifact.
        device: index of the GPU that runs GPU programs.
        mapped: memory-map large constants instead of reading them.
        verify: public key that must verify the artifact's signature; None for no check.
        runs: False if the caller will only print properties of the model; then packages that a run
            needs may be missing.

    Raises:
        ArtifactError: if the file is missing, not an artifact, corrupt, compiled for another
            machine, or lacks the expected signature.
        OptionError: if the path, the key or the GPU's index is invalid.
    """
    path = path_of(path, "load")
    key = None if verify is None else read_key(verify, "verify")
    verifier = None if key is None else verifier_of(key)
    with open_archive(path, mapped=mapped, verify=verifier) as archive:
        found, seal = _reader(archive, device, runs=runs), archive.manifest[SEAL]
    model = found()
    model.reload = ArtifactFile(path.resolve(), device, mapped, seal, key)
    return model


@dataclass(frozen=True)
class ArtifactFile:
    """The artifact from which a model was loaded, and the arguments of that load.

    Pickling a loaded model stores this object instead of the model's content; unpickling calls the
    object, which loads the artifact again.

    Attributes:
        path: the artifact.
        device: index of the GPU that runs GPU programs.
        mapped: whether large constants are memory-mapped.
        seal: a hash of all members of the artifact, which the artifact's manifest contains.
        verify: public key of the artifact's signature; None for no check.
    """

    path: Path
    device: int
    mapped: bool
    seal: str
    verify: PemKey | None = None

    def __call__(self) -> LoadedModel:
        """Load the model from the artifact again, when a pickled model is restored.

        Raises:
            ArtifactError: if the file is missing or invalid, or now contains another model.
        """
        model = load(self.path, self.device, mapped=self.mapped, verify=self.verify)
        if model.reload != self:
            model.close()
            raise ArtifactError(
                f"'{self.path}' was replaced: expected the file that the pickled model was loaded "
                "from, found another model; load it, and pickle that one"
            )
        return model


def _reader(archive: Archive, device: int, *, runs: bool) -> Callable[[], LoadedModel]:
    """Read an artifact of any kind; return a function that makes the model ready to run.

    ``device`` is the index of the GPU that runs GPU programs. With ``runs=False``, the caller will
    only print properties of the model, and packages that a run needs may be missing.
    """
    version = archive.manifest["version"]
    if version == TREE_VERSION:
        return read_tree(archive, device, runs=runs)
    if version == SEVERAL_VERSION:
        found = read_specializations(archive)
        return partial(open_specializations, archive.path, found, device, runs=runs)
    return partial(open_artifact, archive.path, read_program(archive), device, runs=runs)

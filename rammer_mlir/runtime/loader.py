"""Loads artifacts, independent of the compiler and its bindings."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from rammer_mlir.engines.requirements import check_needs
from rammer_mlir.engines.table import check_available
from rammer_mlir.errors import ArtifactError, RammerError
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.artifact import Artifact
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.driver_loading import check_device, open_driver
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.pool import native_code
from rammer_mlir.runtime.shared_libraries import SharedLibrary


def open_artifact(
    path: Path, found: Artifact, device: int = 0, *, runs: bool = True
) -> Executable | GpuExecutable:
    """Return an executable of the program in an artifact.

    Args:
        path: the artifact's file, for messages.
        found: the content of that file.
        device: the index of the GPU that runs a GPU program.
        runs: whether the caller will run the executable. If False, the caller only prints
            properties of the program, and the packages that a run needs may be missing.

    Raises:
        ArtifactError: if the program's code cannot be loaded.
        MissingPackageError: if a required package is not installed.
        OptionError: if the index of the GPU is invalid.
    """
    if runs and found.fallback is None:
        check_needs(found.image.modules)
    if isinstance(found.image, GpuImage):
        driver = partial(open_driver, found.image.target, check_device(device))
        return GpuExecutable(found.image, found.code, driver, found.stats)
    executable, other = _executable(path, found.image, found), found.fallback
    if other is None:
        return executable
    assert isinstance(other.image, CpuImage)
    executable.keep_fallback(_executable(path, other.image, other))
    try:
        check_available(found.image.modules)
    except RammerError as problem:
        executable.fall_back(problem)
    return executable


def _executable(path: Path, image: CpuImage, found: Artifact) -> Executable:
    library = _open_library(path, found.code)

    def address_of(symbol: str) -> int:
        try:
            return library.address(symbol)
        except AttributeError as error:
            raise ArtifactError(
                f"'{path}': its code lacks '{symbol}', so the file is damaged, foreign, or of "
                "another version: compile the model again"
            ) from error

    code = found.code  # do not keep the rest of the artifact alive
    native = native_code(address_of, library, image)
    return Executable(image, native, lambda: code, found.stats)


def _open_library(path: Path, code: bytes) -> SharedLibrary:
    try:
        with tempfile.NamedTemporaryFile(prefix="rammer-", suffix=".so") as file:
            file.write(code)
            file.flush()
            return SharedLibrary(file.name)
    except OSError as error:
        raise ArtifactError(
            f"'{path}': its code cannot be loaded ({error}); compile the model here, or choose "
            "another directory for temporary files with TMPDIR"
        ) from error

"""Loading artifacts: neither the compiler nor its bindings are needed."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

from rammer_mlir.errors import ArtifactError
from rammer_mlir.runtime.artifact import read_artifact
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import native_code


def load(path: str | os.PathLike[str]) -> Executable:
    """Load a compiled model.

    Raises:
        ArtifactError: if the file is missing, foreign, corrupt, or made for another machine.
    """
    image, code = read_artifact(Path(path))
    library = _open_library(Path(path), code)

    def address_of(symbol: str) -> int:
        try:
            function = getattr(library, symbol)
        except AttributeError as error:
            raise ArtifactError(
                f"'{path}': its code lacks '{symbol}', so the file is damaged or foreign: compile "
                "the model again"
            ) from error
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    return Executable(image, native_code(address_of, library), lambda: code)


def _open_library(path: Path, code: bytes) -> ctypes.CDLL:
    try:
        with tempfile.NamedTemporaryFile(prefix="rammer-", suffix=".so") as file:
            file.write(code)
            file.flush()
            return ctypes.CDLL(file.name)
    except OSError as error:
        raise ArtifactError(
            f"'{path}': its code cannot be loaded ({error}); compile the model here, or choose "
            "another directory for temporary files with TMPDIR"
        ) from error

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
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        assert address is not None
        return address

    return Executable(image, native_code(address_of, library), lambda: code)


def _open_library(path: Path, code: bytes) -> ctypes.CDLL:
    with tempfile.NamedTemporaryFile(prefix="rammer-", suffix=".so") as file:
        file.write(code)
        file.flush()
        try:
            return ctypes.CDLL(file.name)
        except OSError as error:
            raise ArtifactError(
                f"'{path}': its code cannot be loaded ({error}); compile the model here"
            ) from error

"""Writes files completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rammer_mlir.errors import ArtifactError


@contextmanager
def open_atomically(path: Path) -> Generator[IO[bytes]]:
    """Yield a temporary file that replaces the file ``path`` at the end of the block.

    If the block raises an exception, the temporary file is removed and the file ``path`` stays
    unchanged. If ``path`` is a device or pipe, yield this file itself. If ``path`` is a symbolic
    link, replace its target and keep the link.

    Raises:
        ArtifactError: if the file cannot be written, for example for lack of space.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as special:
                yield special
            return
        if path.is_symlink():
            path = path.resolve()
        temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
        try:
            # tempfile would create a file that only its owner can read: the process's umask cannot
            # be read without changing it, while other threads create files.
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely, or leave the old file unchanged.

    Raises:
        ArtifactError: if the file cannot be written, for example for lack of space.
    """
    with open_atomically(path) as file:
        file.write(content)


def check_writable(path: Path) -> None:
    """Check that the file ``path`` can be written, to find errors before a long computation.

    The file itself stays unchanged.

    Raises:
        ArtifactError: if the file cannot be written.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            return  # opening a pipe would wait for a reader
        path = path.resolve() if path.is_symlink() else path
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> ArtifactError:
    return ArtifactError(f"cannot write '{path}': {error.strerror or error}; choose another place")

"""Links an object to a shared library with an installed ELF linker."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rammer_mlir.errors import TargetError


def find_linker(*, needs_lld: bool = False) -> list[str]:
    """Return the command that runs an ELF linker: ``ld.lld``, ``ld`` or ziglang's ``ld.lld``.

    With ``needs_lld``, ``ld`` is excluded: only LLVM's linkers link for any processor. Raises
    ``TargetError`` if no linker is found.
    """
    for name in ("ld.lld",) if needs_lld else ("ld.lld", "ld"):
        path = shutil.which(name)
        if path is not None:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    raise TargetError(
        "linking a shared library: expected a linker ('ld.lld', 'ld' or the Python package "
        "'ziglang'), found none; install one with 'pip install rammer-mlir[link]'"
    )


def link_shared(*objects: bytes, needs_lld: bool = False, is_whole: bool = False) -> bytes:
    """Link relocatable ELF objects to a shared library, and return the library's bytes.

    Symbols of libc and libm stay undefined: the loading process provides them. With ``is_whole``,
    undefined symbols are errors, as code for a GPU requires: the GPU has no libc or libm.
    ``needs_lld`` must be True if the objects are for another processor than this machine's. Raises
    ``TargetError`` if no linker is found or the linker fails.
    """
    linker = find_linker(needs_lld=needs_lld)
    with tempfile.TemporaryDirectory(prefix="rammer-link-") as folder:
        library = Path(folder, "kernels.so")
        sources = [Path(folder, f"kernels{number}.o") for number in range(len(objects))]
        for source, content in zip(sources, objects, strict=True):
            source.write_bytes(content)
        options = ["--no-undefined"] if is_whole else []
        # External code may define a function with libc's name; calls must reach that definition.
        options += ["-Bsymbolic"] if len(objects) > 1 else []
        command = [*linker, "-shared", *options, "-o", str(library), *map(str, sources)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0 or not library.exists():
            lines = (result.stderr or result.stdout).strip().splitlines() or ["no message"]
            raise TargetError(
                f"linking a shared library: expected '{' '.join(linker)}' to succeed, "
                f"found '{lines[0]}'; the command was: {' '.join(command)}"
            )
        return library.read_bytes()

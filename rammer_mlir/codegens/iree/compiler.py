"""IREE's compiler: where it is, and a region's text through it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.machine import Machine

PACKAGE, VERSION = "iree-base-compiler", "3.13.0"
"""The interface between its objects and their callers changes with releases."""

_UNKNOWN_FLAG = "Unknown command line argument"

_ADVICE = "install it with 'pip install rammer-mlir[offload-iree]'"

_FLAGS = (
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-input-type=none",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-data-tiling=false",
    "--iree-dispatch-creation-enable-aggressive-fusion",
    "--iree-llvmcpu-link-embedded=false",
    "--iree-llvmcpu-link-static",
    "--iree-llvmcpu-debug-symbols=false",
    "--compile-to=hal",
)
"""Element types stay, nothing is packed at run time, and as much as possible is one dispatch."""


@dataclass(frozen=True)
class Compiled:
    """An object with a library of dispatch functions, and the text of the ``hal`` phase."""

    content: bytes
    text: str


def missing_package() -> str | None:
    """Return what is expected and found instead; None if the compiler is there."""
    try:
        found = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found == VERSION and _folder() is not None:
        return None
    return f"the package {PACKAGE} {VERSION}, found {found}; {_ADVICE}"


def _folder() -> Path | None:
    try:
        spec = importlib.util.find_spec("iree.compiler")
    except (ImportError, ValueError):  # its parent is not there, or is hidden
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def flags_of(machine: Machine) -> tuple[str, ...]:
    """Return the options that decide what code becomes."""
    return (
        *_FLAGS,
        f"--iree-llvmcpu-target-triple={machine.triple}",
        f"--iree-llvmcpu-target-cpu={machine.cpu}",
        f"--iree-llvmcpu-target-cpu-features={machine.features}",
    )


def compile_text(
    text: str, machine: Machine, flags: Sequence[str], seconds: float
) -> Compiled | None:
    """Compile a module to a static library; None if IREE cannot.

    Args:
        text: the module.
        machine: that the code is for.
        flags: further ones, which users give.
        seconds: most time: some inputs keep IREE's compiler busy for very long.

    Raises:
        TargetError: if the compiler cannot be started, or does not know a flag.
    """
    with tempfile.TemporaryDirectory(prefix="rammer-iree-") as folder:
        source, library = Path(folder, "region.mlir"), Path(folder, "region.o")
        source.write_text(text, encoding="utf-8")
        output = f"--iree-llvmcpu-static-library-output-path={library}"
        program = str((_folder() or Path()) / "_mlir_libs" / "iree-compile")
        command = [program, str(source), *flags_of(machine), *flags, output, "-o", "-"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return None
        except OSError as error:
            raise TargetError(
                f"code generator 'iree': expected '{program}' to start, found '{error.strerror}'; "
                f"{_ADVICE}"
            ) from error
        if flags and _UNKNOWN_FLAG in done.stderr:
            raise TargetError(
                f"code generator 'iree': expected iree.flags that iree-compile takes, found "
                f"'{' '.join(flags)}'; see '{program} --help'"
            )
        if done.returncode or not library.exists():
            return None
        return Compiled(library.read_bytes(), done.stdout)

"""Calls IREE's compiler for the MLIR text of a region."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rammer_mlir.engines.requirements import package_file
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.programs.modules import Requirement

VERSION = "3.13.0"
"""Required version of IREE's compiler.

The ABI between its objects and their callers changes with releases.
"""

NEEDS = (Requirement("iree-base-compiler", VERSION, extra="offload-iree"),)

_PROGRAM = "/_mlir_libs/iree-compile"

_UNKNOWN_FLAG = "Unknown command line argument"

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
"""Flags of the compiler.

They keep element types, pack nothing at run time, and fuse as much as possible into a dispatch.
"""


@dataclass(frozen=True)
class Compiled:
    """An object file with dispatch functions, and the MLIR text of IREE's ``hal`` phase."""

    content: bytes
    text: str


def flags_of(machine: Machine) -> tuple[str, ...]:
    """Return the ``iree-compile`` flags for the target ``machine``, without user-given flags."""
    return (
        *_FLAGS,
        f"--iree-llvmcpu-target-triple={machine.triple}",
        f"--iree-llvmcpu-target-cpu={machine.cpu}",
        f"--iree-llvmcpu-target-cpu-features={machine.features}",
    )


def compile_text(
    text: str, machine: Machine, flags: Sequence[str], seconds: float
) -> Compiled | str:
    """Return the object file of a module; a message if IREE fails or exceeds the time limit.

    Args:
        text: MLIR text of the module.
        machine: the target machine of the code.
        flags: additional flags from the user.
        seconds: time limit, since IREE's compiler takes very long for some inputs.

    Raises:
        TargetError: if the compiler cannot be started, or does not know a flag.
    """
    with tempfile.TemporaryDirectory(prefix="rammer-iree-") as folder:
        source, library = Path(folder, "region.mlir"), Path(folder, "region.o")
        source.write_text(text, encoding="utf-8")
        output = f"--iree-llvmcpu-static-library-output-path={library}"
        options = [str(source), *flags_of(machine), *flags, output, "-o", "-"]
        try:
            command = [str(package_file(NEEDS[0].package, _PROGRAM)), *options]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return f"iree-compile took more than {seconds:g} seconds (iree.seconds)"
        except OSError as error:
            raise TargetError(
                f"code generator 'iree': expected its compiler to start, found '{error}'; install "
                f"{NEEDS[0].package} {VERSION} again"
            ) from error
        if flags and _UNKNOWN_FLAG in done.stderr:
            raise TargetError(
                f"code generator 'iree': expected iree.flags that iree-compile takes, found "
                f"'{' '.join(flags)}'; see 'iree-compile --help'"
            )
        if done.returncode or not library.exists():
            return f"iree-compile failed: {_first_error(done.stderr)}"
        return Compiled(library.read_bytes(), done.stdout)


def _first_error(text: str) -> str:
    """Return the first line of ``text`` with "error:", else the first; at most 200 characters."""
    lines = text.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error:" in line), lines[0]).strip()[:200]

"""Compiles C source to object files with an installed C compiler."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.machine import Machine

_COMPILERS = ("cc", "gcc", "clang")

_OPTIONS = (
    *("-std=gnu11", "-O3", "-fPIC", "-ffp-contract=fast", "-w", "-c"),
    # No caller reads floating-point flags or errno, and preserving them hinders GCC's vectorizer.
    *("-fno-trapping-math", "-fno-math-errno"),
)


def find_c_compiler() -> list[str]:
    """Return the command of a C compiler: the environment variable ``CC``, else the first found.

    The candidates are those of ``_COMPILERS``, then that of the package ``ziglang``.

    Raises:
        TargetError: if there is no compiler.
    """
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in _COMPILERS:
        path = shutil.which(name)
        if path is not None:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=all"]
    raise TargetError(
        "compiling C: expected a compiler ('cc', 'gcc', 'clang' or the Python package 'ziglang'), "
        "found none; install one with 'pip install rammer-mlir[link]', or set CC"
    )


def compile_c(code: ForeignCode, machine: Machine) -> bytes:
    """Compile C source for a processor, and return the relocatable object.

    Raises:
        TargetError: if no C compiler is installed, the processor is of another family than this
            machine's, or the compiler fails.
    """
    family = machine.triple.split("-")[0]
    if family != platform.machine():
        raise TargetError(
            f"module '{code.name}': expected C for {platform.machine()}, which compilers here make "
            f"objects for, found a target of {family}; give an object for it instead"
        )
    with tempfile.TemporaryDirectory(prefix="rammer-c-") as folder:
        source, target = Path(folder, f"{code.name}.c"), Path(folder, "module.o")
        source.write_bytes(code.content)
        options = [*_OPTIONS, _processor(machine), str(source), "-o", str(target)]
        command = [*find_c_compiler(), *options]
        problem = _problem(command)
        if problem or not target.exists():
            raise TargetError(
                f"module '{code.name}': expected C that '{command[0]}' compiles, found "
                f"'{problem.replace(folder + '/', '')}'; mend the source, or set CC"
            )
        return target.read_bytes()


def _processor(machine: Machine) -> str:
    """Return the ``-march`` option for ``machine``.

    The option names the x86-64 level, such as ``x86-64-v3``, if ``machine.cpu`` is such a level.
    Otherwise it is ``-march=native``.
    """
    generic = machine.cpu.startswith("x86-64")
    return f"-march={machine.cpu}" if generic else "-march=native"


def _problem(command: list[str]) -> str:
    """Run the compiler by the command line ``command``; return its first error message.

    The result is an empty string on success. If the compiler cannot be started, it is the system's
    error message.
    """
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{error.strerror}: {command[0]}"
    if result.returncode == 0:
        return ""
    lines = result.stderr.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error" in line), lines[0])

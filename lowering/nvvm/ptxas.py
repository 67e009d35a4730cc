"""Assembles PTX to a cubin with NVIDIA's ptxas, and reads its report of resources."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.nvvm.nvidia_tools import find_tool
from rammer_mlir.programs.residency import KernelResources

_REPORT = {
    "registers": re.compile(r"Used (\d+) registers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_store_bytes": re.compile(r"(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(\d+) bytes spill loads"),
}


@dataclass(frozen=True)
class Assembled:
    """An assembled kernel.

    Attributes:
        cubin: the machine code.
        resources: the registers and memory that the kernel uses, as reported by ptxas.
    """

    cubin: bytes
    resources: KernelResources


def find_ptxas() -> str | None:
    """Return the path of ptxas in PATH or the package ``nvidia-cuda-nvcc``; None if not found."""
    return find_tool("ptxas")


def knows_chip(chip: str) -> bool:
    """Return whether ptxas is installed and assembles for ``chip``; new versions drop old chips."""
    ptxas = find_ptxas()
    return ptxas is not None and chip in _chips(ptxas, Path(ptxas).stat().st_mtime_ns)


@functools.cache
def _chips(ptxas: str, _changed: int) -> frozenset[str]:
    """Return the chips that the help text of the program ``ptxas`` lists for ``--gpu-name``."""
    result = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=False)
    _, _, rest = result.stdout.partition("--gpu-name")
    _, _, values = rest.partition("Allowed values")
    return frozenset(re.findall(r"'(sm_[0-9]+[a-z]?)'", values.partition("Default")[0]))


def assemble(ptx: str, chip: str) -> Assembled:
    """Assemble PTX for ``chip``; return the cubin, and the resources that the kernel uses.

    Raises:
        TargetError: if ptxas is not found or refuses the PTX.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        raise TargetError(
            "making a cubin: expected NVIDIA's 'ptxas' in PATH or in the Python package "
            "'nvidia-cuda-nvcc', found none; install it with 'pip install rammer-mlir[cuda]', or "
            "emit PTX, which the driver compiles"
        )
    with tempfile.TemporaryDirectory(prefix="rammer-ptxas-") as folder:
        source, cubin = Path(folder, "program.ptx"), Path(folder, "program.cubin")
        source.write_text(ptx)
        command = [ptxas, "-v", f"-arch={chip}", str(source), "-o", str(cubin)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        output = result.stderr + result.stdout
        if result.returncode != 0 or not cubin.exists():
            lines = [line for line in output.splitlines() if line.strip()] or ["no message"]
            raise TargetError(
                f"assembling PTX for {chip}: expected ptxas to accept it, found '{lines[0]}'; the "
                f"command was: {' '.join(command)}"
            )
        return Assembled(cubin.read_bytes(), read_report(output))


def read_report(output: str) -> KernelResources:
    """Return the resources that the output of ``ptxas -v`` reports; omitted resources are 0."""
    found = {
        name: max([0, *(int(number) for number in pattern.findall(output))])
        for name, pattern in _REPORT.items()
    }
    return KernelResources(**found)

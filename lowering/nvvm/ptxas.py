"""Assembles PTX to a cubin with NVIDIA's ptxas, and reads its report of resources."""

from __future__ import annotations

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

"""Compiles CUDA source to PTX: by NVRTC, or by ``nvcc`` if NVRTC is not found."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.nvvm.device_functions import PtxModule
from rammer_mlir.lowering.nvvm.nvidia_tools import find_tool
from rammer_mlir.lowering.nvvm.nvrtc import find_nvrtc, first_error, run_nvrtc

_OPTIONS = ("-rdc=true", "-std=c++17")
"""Compiler options: relocatable device code keeps functions that no kernel calls."""

_FOLDER_HASH = re.compile(r"\b(?:__nv_static_\d+__|_INTERNAL_)([0-9a-f]{8})_")
"""Matches names of static variables, into which ``nvcc`` hashes the path of the source."""


def device_ptx(code: Sequence[ForeignCode], chip: str) -> tuple[PtxModule, ...]:
    """Return the PTX and CUDA modules of ``code``, all as PTX; ignore modules of other forms.

    CUDA source is compiled for ``chip``, such as ``sm_90``.

    Raises:
        TargetError: if CUDA source cannot be compiled.
    """
    return tuple(
        PtxModule.of(
            each.name, compile_cuda(each, chip) if each.form == "cuda" else each.text, each.symbols
        )
        for each in code
        if each.form in ("ptx", "cuda")
    )


def compile_cuda(code: ForeignCode, chip: str) -> str:
    """Compile CUDA source for a chip such as ``sm_90``, and return the PTX.

    Raises:
        TargetError: if no CUDA compiler is found, or the compiler refuses the source.
    """
    options = [f"-arch=compute_{chip.removeprefix('sm_')}", *_OPTIONS]
    library = find_nvrtc()
    if library is not None:
        ptx, problem = run_nvrtc(library, code.text, f"{code.name}.cu", options)
    else:
        ptx, problem = _run_nvcc(code, options)
    if problem:
        raise TargetError(
            f"module '{code.name}': expected CUDA source that NVIDIA's compiler takes for {chip}, "
            f"found '{problem}'; mend the source"
        )
    return ptx


def _run_nvcc(code: ForeignCode, options: Sequence[str]) -> tuple[str, str]:
    nvcc = find_tool("nvcc")
    if nvcc is None:
        raise TargetError(
            f"module '{code.name}': expected NVRTC in the Python package 'nvidia-cuda-nvrtc', or "
            "'nvcc', to compile CUDA source, found none; install one with "
            "'pip install rammer-mlir[offload-cuda]', or give PTX"
        )
    with tempfile.TemporaryDirectory(prefix="rammer-cuda-") as folder:
        source, target = Path(folder, f"{code.name}.cu"), Path(folder, "module.ptx")
        source.write_bytes(code.content)
        command = [nvcc, "-ptx", *options, source.name, "-o", target.name]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if result.returncode == 0 and target.exists():
            return _reproducible(target.read_text(), code), ""
        return "", first_error(result.stderr + result.stdout)


def _reproducible(ptx: str, code: ForeignCode) -> str:
    """Return the PTX with static variables' names made independent of the temporary folder.

    ``nvcc`` puts a hash of the source file's path in these names. This function replaces that hash
    by a hash of the source, so that compiling the same source twice returns the same PTX.
    """
    own = hashlib.sha256(code.content).hexdigest()[:8]
    for found in sorted(set(_FOLDER_HASH.findall(ptx))):
        ptx = ptx.replace(found, own)
    return ptx

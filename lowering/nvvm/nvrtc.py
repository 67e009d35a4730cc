"""Calls NVIDIA's run-time compiler (NVRTC) through its C interface."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.nvvm.nvidia_tools import in_packages


def find_nvrtc() -> str | None:
    """Return the path of the NVRTC library, from NVIDIA's package or the system; else None."""
    packaged = in_packages("*/lib/libnvrtc.so.*")
    return packaged[0] if packaged else ctypes.util.find_library("nvrtc")


def run_nvrtc(path: str, source: str, name: str, options: Sequence[str]) -> tuple[str, str]:
    """Compile CUDA source; return (PTX, "") or, if the compiler refuses it, ("", first error).

    Args:
        path: path of the NVRTC library.
        source: CUDA source.
        name: name of the source in messages.
        options: compiler options in the syntax of ``nvcc``.

    Raises:
        TargetError: if the library cannot be opened.
    """
    try:
        # NVRTC searches its builtins library in system folders, unless one is loaded already.
        for builtins in Path(path).parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))
        library = ctypes.CDLL(path)
    except OSError as error:
        raise TargetError(
            f"compiling CUDA source: expected to open '{path}', found '{error}'; install "
            "nvidia-cuda-nvrtc again"
        ) from error
    program = ctypes.c_void_p()
    arguments = (source.encode(), name.encode(), 0, None, None)
    library.nvrtcCreateProgram(ctypes.byref(program), *arguments)
    try:
        given = (ctypes.c_char_p * len(options))(*(each.encode() for each in options))
        if library.nvrtcCompileProgram(program, len(options), given):
            return "", first_error(_text(library, program, "ProgramLog"))
        return _text(library, program, "PTX"), ""
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def first_error(log: str) -> str:
    """Return the first line of a compiler's log that reports an error, without extra whitespace.

    If no line contains "error", return the first line of the log, or "no message" for an empty log.
    """
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), (lines or ["no message"])[0])


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.value.decode(errors="replace")

"""Let a stand-in for CUDA's driver run kernels on the emulator.

Each Python process of a test imports this file. The folder in the environment variable
``STANDIN_KERNELS`` has pickled code for the emulator. The kernels of the kit's case ``probe``,
which measures a GPU, are not emulated: their results are written directly.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import time
from pathlib import Path
from typing import Any

_HEADER = 64
"""Bytes of an ELF file that are compared before the whole file is compared."""

_WORDS = {
    "wrap": 2, "meet": 2, "read1": 3, "read4": 3, "read16": 3,
    "pass_sleeping": 3, "pass_acquiring": 3, "pass_relaxed": 3,
}  # fmt: skip
"""Number of arguments of each of the probe's kernels."""

_FAILED = 719
"""CUDA_ERROR_LAUNCH_FAILED."""


class Kernels:
    """The kernels of a test, which are found by the content of their cubins."""

    def __init__(self, folder: Path) -> None:
        """Read the cubins of all kernels in ``folder``."""
        self._found: list[dict[str, Any]] = []
        for path in sorted(folder.glob("*.pickle")):
            self._found.append({"path": path, "code": path.with_suffix(".cubin").read_bytes()})

    def find(self, image: int) -> dict[str, Any] | None:
        """Return the kernel whose cubin is at the address ``image``, or None.

        The dictionary has the kernel for the emulator and its behavior, such as "run" or "hang".
        """
        header = ctypes.string_at(image, _HEADER)
        for each in self._found:
            code = each["code"]
            if code[:_HEADER] == header and ctypes.string_at(image, len(code)) == code:
                return self._loaded(each)
        return None

    def _loaded(self, each: dict[str, Any]) -> dict[str, Any]:
        if "kernel" not in each:
            from rammer_mlir.emulation.codegen.kernel import load_kernel

            held = pickle.loads(each["path"].read_bytes())
            each["kernel"] = load_kernel(held["kernel"], held["object"])
            each["behavior"] = held["behavior"]
        return each


def execute(each: dict[str, Any], blocks: int, threads: int, values: Any) -> None:
    """Run a kernel, as ``Kernels.find`` returns it, on the emulator.

    ``values`` has the address of each buffer that is an argument of the kernel.
    """
    import numpy as np

    from rammer_mlir.emulation.device.emulator import Grid, launch

    kernel, buffers = each["kernel"], list[Any]()
    for number, argument in enumerate(kernel.arguments):
        size = argument.num_bytes
        place = (ctypes.c_uint8 * size).from_address(values[number]) if size else b""
        buffers.append(np.frombuffer(place, np.uint8) if size else np.zeros(0, np.uint8))
    names = [argument.name for argument in kernel.arguments]
    launch(kernel, buffers, Grid(blocks, threads, 32), names=names, unwritten=[])


def misbehave(behavior: str) -> None:
    """Hang or crash, if ``behavior`` is one of these."""
    while behavior == "hang":
        time.sleep(60)
    if behavior == "crash":
        os.abort()


def answer_probe(entry: str, blocks: int, values: Any) -> None:
    """Write the results of the kernel ``entry`` of the kit's case ``probe``, without running it."""
    if entry == "wrap":
        (ctypes.c_int32 * 256).from_address(values[0])[:] = list(range(256))
    elif entry.startswith("pass_"):
        last = values[1] + (values[2] - 1) * 256 * 4
        (ctypes.c_float * 256).from_address(last)[:] = [values[2]] * 256
    elif entry == "meet":
        ctypes.c_uint64.from_address(values[0]).value += blocks * values[1]


def install() -> None:
    """Give the stand-in for CUDA's driver the functions that describe and run kernels."""
    kernels = Kernels(Path(os.environ["STANDIN_KERNELS"]))
    library = ctypes.CDLL("libcuda.so.1")

    def describe(image: int, entry: bytes) -> int:
        if entry.decode() in _WORDS:
            return _WORDS[entry.decode()]
        each = kernels.find(image)
        return -1 if each is None else len(each["kernel"].arguments)

    def run(image: int, entry: bytes, blocks: int, threads: int, values: Any) -> int:
        try:
            if entry.decode() in _WORDS:
                answer_probe(entry.decode(), blocks, values)
                return 0
            each = kernels.find(image)
            assert each is not None
            misbehave(each["behavior"])
            if each["behavior"] != "wrong":
                execute(each, blocks, threads, values)
            return 0
        except Exception as problem:
            print(f"stand-in: {problem}", flush=True)
            return _FAILED

    u64s = ctypes.POINTER(ctypes.c_uint64)
    of = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(describe)
    runner = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, u64s
    )(run)
    install.kept = (of, runner)  # type: ignore[attr-defined]
    library.standin_hooks(of, runner)


if "STANDIN_KERNELS" in os.environ:
    install()

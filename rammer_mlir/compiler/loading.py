"""Loads compiled CPU programs into this process, as executables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import native_code


def load_program(
    image: CpuImage, binary: bytes, objects: Sequence[bytes], stats: Mapping[str, Any]
) -> Executable:
    """Load a compiled CPU program into this process, and return its executable.

    The objects are linked to a shared library only when the executable is saved.

    Args:
        image: the program's data.
        binary: object file of the program's main code.
        objects: object files that are linked with ``binary``.
        stats: compiler statistics.
    """
    library = load_object(binary, *objects)
    native = native_code(library.address, library, image)
    return Executable(image, native, partial(link_shared, binary, *objects), stats)

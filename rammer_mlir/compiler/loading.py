"""Compiled programs for this machine's processor, loaded into this process."""

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
    """Load an object into this process; linking waits until somebody saves it.

    Args:
        image: the program's data.
        binary: the object of the program's own code.
        objects: objects from elsewhere that are linked with it.
        stats: what the compiler measured.
    """
    library = load_object(binary, *objects)
    native = native_code(library.address, library, image)
    return Executable(image, native, partial(link_shared, binary, *objects), stats)

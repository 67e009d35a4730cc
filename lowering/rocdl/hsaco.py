"""Links AMDGPU objects, from LLVM's code generator, to hsaco code objects."""

from __future__ import annotations

from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.programs.residency import KernelResources

TRIPLE = "amdgcn-amd-amdhsa"


def amd_machine(chip: str) -> Machine:
    """Return the description of an AMD chip for LLVM's code generator.

    LLVM derives the wave size from the chip's name, such as ``gfx90a``.
    """
    return Machine(TRIPLE, chip, "", 128)


def link_hsaco(object_file: bytes) -> bytes:
    """Link an object, and return the code object that HIP loads.

    Raises:
        TargetError: if no linker is found or the linker fails.
    """
    return link_shared(object_file, needs_lld=True, is_whole=True)


def read_resources(code: bytes) -> KernelResources:
    """Return the resources of a code object's only kernel, from the code object's metadata.

    The metadata is MessagePack (LLVM's AMDGPU user guide, code object version 3 and later). The
    metadata is not parsed completely, but searched for the keys of the resources. A spilled
    register counts as 4 bytes. The vector registers include the accumulation registers.
    """
    spilled = 4 * _metadata(code, ".vgpr_spill_count")
    return KernelResources(
        registers=_metadata(code, ".vgpr_count"),
        shared_bytes=_metadata(code, ".group_segment_fixed_size"),
        stack_bytes=_metadata(code, ".private_segment_fixed_size"),
        spill_store_bytes=spilled,
        spill_load_bytes=spilled,
    )


_WIDE_UNSIGNED = {0xCC: 1, 0xCD: 2, 0xCE: 4}
"""Number of bytes of an unsigned integer, by the MessagePack byte that precedes it."""


def _metadata(code: bytes, name: str) -> int:
    """Return the integer value of a key in a code object's metadata; 0 if the key is missing.

    The key ``name`` has at most 31 characters, because MessagePack encodes longer strings with
    another prefix.
    """
    key = bytes([0xA0 | len(name)]) + name.encode()
    at = code.find(key)
    if at < 0:
        return 0
    value = code[at + len(key) :]
    width = _WIDE_UNSIGNED.get(value[0])
    return value[0] if width is None else int.from_bytes(value[1 : 1 + width], "big")

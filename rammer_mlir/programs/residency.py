"""Checks that all blocks of a persistent kernel can be resident on the device at the same time.

Blocks wait for each other, so a block that queues for a multiprocessor would cause a deadlock. A
launch checks the actual device. Compilation checks the most common device with the target's chip,
and reports how many vEUs this device can have.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import TargetError


@dataclass(frozen=True)
class Multiprocessors:
    """The multiprocessors of a device, and the resources of each.

    Attributes:
        count: number of multiprocessors (compute units).
        threads: most resident threads per multiprocessor.
        registers: number of 32-bit registers per multiprocessor.
        shared_bytes: bytes of shared memory per multiprocessor.
        warp: number of threads that execute together.
        register_unit: granularity of the allocation of registers: the registers of a warp are
            rounded up to a multiple of this number.
    """

    count: int
    threads: int
    registers: int
    shared_bytes: int
    warp: int = 32
    register_unit: int = 256


@dataclass(frozen=True)
class KernelResources:
    """Resources that a kernel uses, as the assembler reports them.

    Registers are counted per thread. Shared memory is in bytes per block; stack and spills are in
    bytes per thread.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True)
class BlockNeeds:
    """Resources that a GPU block needs: threads, registers per thread, bytes of shared memory."""

    threads: int
    registers: int
    shared_bytes: int


def resident_blocks(device: Multiprocessors, block: BlockNeeds) -> int:
    """Return the number of blocks that can be resident on the whole device at the same time."""
    unit = device.register_unit
    per_warp = -(-block.registers * device.warp // unit) * unit
    warps = -(-block.threads // device.warp)
    limits = [device.threads // block.threads]
    if per_warp:
        limits.append(device.registers // (per_warp * warps))
    if block.shared_bytes:
        limits.append(device.shared_bytes // block.shared_bytes)
    return device.count * min(limits)


def check_residency(name: str, num_veus: int, device: Multiprocessors, block: BlockNeeds) -> None:
    """Check that all blocks of a program can be resident on a device at the same time.

    Args:
        name: the program's target, for the message.
        num_veus: number of the program's blocks.
        device: resources of the device.
        block: resources of a block.

    Raises:
        TargetError: if not all blocks can be resident; the message has the greatest possible number
            of vEUs.
    """
    require_resident(name, num_veus, resident_blocks(device, block), block)


def require_resident(name: str, num_veus: int, most: int, block: BlockNeeds) -> None:
    """Check that a program has at most ``most`` vEUs, the number of blocks that can be resident.

    ``name`` is the program's target and ``block`` the resources of a block, for the message.

    Raises:
        TargetError: if the program has more vEUs; the message has both numbers.
    """
    if num_veus > most:
        advice = "compile for fewer vEUs (--veus)" if most else "compile for another chip"
        raise TargetError(
            f"target '{name}': expected at most {most} vEUs, which is how many blocks of "
            f"{block.threads} threads, {block.registers} registers each and {block.shared_bytes} "
            f"bytes of shared memory are resident at once, found {num_veus}; {advice}"
        )

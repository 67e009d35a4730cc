"""Whether all blocks of a persistent kernel are on the device at once.

Blocks wait for each other, so one that has to queue for a multiprocessor would be waited for in
vain. The launch checks this against the device it finds; compiling checks it against the usual
board of the chip, and says how many vEUs would fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import TargetError


@dataclass(frozen=True)
class Multiprocessors:
    """What a device has: multiprocessors, and the resources of each.

    Attributes:
        count: multiprocessors (compute units).
        threads: most resident threads of one.
        registers: 32-bit registers of one.
        shared_bytes: shared memory of one.
        warp: threads that execute together.
        register_unit: registers are given to a warp in units of this many.
    """

    count: int
    threads: int
    registers: int
    shared_bytes: int
    warp: int = 32
    register_unit: int = 256


@dataclass(frozen=True)
class KernelResources:
    """What a kernel takes of a multiprocessor, as the assembler reports it.

    Registers are per thread, shared memory is per block; stack and spills are bytes per thread.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True)
class BlockNeeds:
    """What a block takes: threads, registers of each thread, bytes of shared memory."""

    threads: int
    registers: int
    shared_bytes: int


def resident_blocks(device: Multiprocessors, block: BlockNeeds) -> int:
    """Return how many blocks are resident on the whole device at once."""
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
    """Refuse a program whose blocks cannot all be resident.

    Raises:
        TargetError: saying how many vEUs can be.
    """
    require_resident(name, num_veus, resident_blocks(device, block), block)


def require_resident(name: str, num_veus: int, most: int, block: BlockNeeds) -> None:
    """Refuse a program of more vEUs than blocks are resident at once.

    Raises:
        TargetError: naming the need and the limit.
    """
    if num_veus > most:
        advice = "compile for fewer vEUs (--veus)" if most else "compile for another chip"
        raise TargetError(
            f"target '{name}': expected at most {most} vEUs, which is how many blocks of "
            f"{block.threads} threads, {block.registers} registers each and {block.shared_bytes} "
            f"bytes of shared memory are resident at once, found {num_veus}; {advice}"
        )

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
    """

    count: int
    threads: int
    registers: int
    shared_bytes: int


@dataclass(frozen=True)
class BlockNeeds:
    """What a block takes: threads, registers of each thread, bytes of shared memory."""

    threads: int
    registers: int
    shared_bytes: int


_REGISTER_UNIT = 256
"""Registers are given to a warp in units of this many."""

_WARP = 32


def resident_blocks(device: Multiprocessors, block: BlockNeeds) -> int:
    """Return how many blocks are resident on the whole device at once."""
    per_warp = -(-block.registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    warps = -(-block.threads // _WARP)
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
    most = resident_blocks(device, block)
    if num_veus > most:
        raise TargetError(
            f"target '{name}': expected at most {most} vEUs, which is how many blocks of "
            f"{block.threads} threads, {block.registers} registers each and {block.shared_bytes} "
            f"bytes of shared memory are resident at once, found {num_veus}; compile for fewer "
            "vEUs (--veus)"
        )

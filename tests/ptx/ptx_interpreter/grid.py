"""A launch of a grid, whose blocks take turns until all have ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import Array
from .block import Block
from .copies import PendingCopies
from .faults import PtxFault
from .kinds import DTYPES
from .memory import WRITABLE, Memory
from .module import Instruction, Kernel, PtxModule, Variable
from .races import Races
from .registers import Registers
from .steps import Machine

_SHARED_BASE = 0x400
_IDLE_ROUNDS = 50
"""Rounds in which every block only waits, before a launch counts as hung."""


def launch(
    module: PtxModule,
    entry: str,
    device: Memory,
    addresses: Sequence[int],
    blocks: int,
    threads: int,
    symbols: Mapping[str, int],
) -> None:
    """Execute a kernel to its end.

    Args:
        module: the module that has the kernel.
        entry: name of the kernel.
        device: global memory.
        addresses: arguments of the kernel, which are addresses.
        blocks: number of blocks.
        threads: number of threads of a block, a multiple of 32.
        symbols: addresses of the module's variables in global memory.

    Raises:
        PtxFault: if an instruction is unknown or does something forbidden, or all blocks wait.
    """
    kernel = module.kernels[entry]
    if len(addresses) != len(kernel.parameters) or threads % 32:
        raise PtxFault(
            f"kernel '{entry}': expected {len(kernel.parameters)} arguments, whole warps"
        )
    parameters = dict(zip(kernel.parameters, addresses, strict=True))
    shared = [*(v for v in module.variables if v.space == "shared"), *kernel.variables]
    races = Races(device, blocks, smallest_access(kernel.instructions))
    machines = [
        _machine(kernel, device, races, shared, number, blocks, threads, parameters, symbols)
        for number in range(blocks)
    ]
    with np.errstate(all="ignore"):
        _take_turns(entry, machines, [Block(kernel, machine).run() for machine in machines])


def _take_turns(entry: str, machines: list[Machine], runs: Sequence[Iterator[None]]) -> None:
    left = list(zip(machines, runs, strict=True))
    idle = 0
    while left:
        for machine in machines:
            machine.has_released = False
        count = len(left)
        left = [(machine, run) for machine, run in left if next(run, left) is None]
        is_moving = count > len(left) or any(machine.has_released for machine in machines)
        idle = 0 if is_moving else idle + 1
        if idle > _IDLE_ROUNDS:
            numbers = ", ".join(str(machine.number) for machine, _ in left)
            raise PtxFault(f"kernel '{entry}': hang: blocks {numbers} wait, and none goes on")


def _machine(
    kernel: Kernel,
    device: Memory,
    device_races: Races,
    variables: Sequence[Variable],
    number: int,
    blocks: int,
    threads: int,
    parameters: dict[str, int],
    symbols: Mapping[str, int],
) -> Machine:
    """Return the initial state of a block: registers, memories and race detectors.

    Args:
        kernel: the kernel that the block executes.
        device: global memory.
        device_races: race detector of global memory, for all blocks.
        variables: shared variables, which get memory in the block.
        number: index of the block.
        blocks: number of blocks of the launch.
        threads: number of threads of a block.
        parameters: the kernel's arguments by name.
        symbols: addresses of global variables by name.
    """
    size = sum(variable.num_bytes + 2048 for variable in variables) + 4096
    memory = Memory(_SHARED_BASE, size // 1024 * 1024 + 1024)
    named: dict[str, Array | int] = dict(symbols)
    for variable in variables:
        if variable.space != "shared":
            raise PtxFault(f"'{variable.name}': expected a shared variable, found {variable.space}")
        buffer = memory.place(variable.name, variable.num_bytes, WRITABLE)
        named[variable.name] = buffer.begin
    named |= special_registers(number, blocks, threads)
    races = {"global": device_races.of_block(number)}
    races["shared"] = Races(memory, 1, smallest_access(kernel.instructions)).of_block(0)
    return Machine(
        number, threads, Registers(kernel.registers, threads, named),
        {"global": device, "shared": memory}, parameters, races,
        PendingCopies(device, memory, races, threads), unused_registers(kernel.instructions),
    )  # fmt: skip


def special_registers(number: int, blocks: int, threads: int) -> dict[str, Array | int]:
    """Return the values of the special registers of a block, such as ``%tid.x``.

    ``number`` is the index of the block. The launch has one dimension, so that indices in other
    dimensions are 0.
    """
    lanes: Any = np.arange(threads, dtype=np.uint32)
    found: dict[str, Array | int] = {
        "%tid.x": lanes, "%laneid": lanes % 32, "%warpid": lanes // 32, "%ntid.x": threads,
        "%ctaid.x": number, "%nctaid.x": blocks, "WARP_SZ": 32,
    }  # fmt: skip
    for axis in "yz":
        found |= {f"%tid.{axis}": 0, f"%ctaid.{axis}": 0}
        found |= {f"%ntid.{axis}": 1, f"%nctaid.{axis}": 1}
    return found


def unused_registers(instructions: Sequence[Instruction]) -> frozenset[str]:
    """Return the registers that occur only once in all operands, so that nothing reads them."""
    names = Counter(
        name for i in instructions for name in re.findall(r"%\w+", " ".join(i.operands))
    )
    return frozenset(name for name, count in names.items() if count == 1)


def smallest_access(instructions: Sequence[Instruction]) -> int:
    """Return the size in bytes of the smallest element that a kernel loads or stores.

    If all elements are larger than 4 bytes, the result is 4.
    """
    sizes = [
        DTYPES[instruction.qualifiers[-1]].itemsize
        for instruction in instructions
        if instruction.name in ("ld", "st", "atom", "red")
    ]
    return min([4, *sizes])

"""The state of a block, and the types of functions that decode and execute instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from .active import Active
from .arrays import Array
from .copies import PendingCopies
from .faults import PtxFault
from .memory import Memory, Refused
from .module import Instruction
from .races import BlockRaces
from .registers import Registers

Step = Callable[[Active], None]
"""A function that executes an instruction for a set of the block's threads."""


@dataclass
class Machine:
    """The state of a block.

    Attributes:
        number: index of the block.
        threads: number of the block's threads.
        registers: registers of the block's threads.
        memories: memories by state space, "global" and "shared".
        parameters: values of the kernel's parameters by name, which are addresses.
        races: race detectors by state space.
        copies: asynchronous copies to the block's shared memory that have not arrived.
        unused: registers that nothing reads.
        has_released: whether one of the block's threads has written global memory, for which other
            blocks may wait, since the flag was last cleared.
    """

    number: int
    threads: int
    registers: Registers
    memories: dict[str, Memory]
    parameters: dict[str, int]
    races: dict[str, BlockRaces]
    copies: PendingCopies
    unused: frozenset[str] = frozenset()
    has_released: bool = False

    def fault(self, instruction: Instruction, on: Active, refused: Refused, addresses: Array,
              space: str) -> NoReturn:  # fmt: skip
        """Raise a PtxFault for a refused access, which names the place and the first thread.

        Args:
            instruction: the instruction that accesses memory.
            on: the threads that execute it.
            refused: the error of the memory.
            addresses: addresses of the threads.
            space: state space of the memory.
        """
        first = int(refused.threads.argmax())
        where = self.memories[space].describe(int(addresses[first]))
        raise PtxFault(
            f"{instruction}: block {self.number}, thread {on.threads[first]}: {refused.reason}: "
            f"{space} memory, {where}"
        ) from refused


Decode = Callable[[Instruction, Machine], Step]
"""A function that decodes an instruction, once, into the function that executes it."""

"""What decoded instructions are, and what they need of their block."""

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
"""An instruction as it is executed by some of the block's threads."""


@dataclass
class Machine:
    """A block's state.

    Attributes:
        number: of the block.
        threads: how many it has.
        registers: of its threads.
        memories: by state space: global, shared.
        parameters: addresses by the parameters' names.
        races: by state space.
        copies: that are under way to its shared memory.
        unused: registers that the kernel names once only, so that nothing reads them.
        has_released: whether a thread wrote what others may wait for since this was last cleared.
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
        """Name an access that a memory refused, and the first of its threads."""
        first = int(refused.threads.argmax())
        where = self.memories[space].describe(int(addresses[first]))
        raise PtxFault(
            f"{instruction}: block {self.number}, thread {on.threads[first]}: {refused.reason}: "
            f"{space} memory, {where}"
        ) from refused


Decode = Callable[[Instruction, Machine], Step]
"""Looks at an instruction once."""

"""What a proof of a program's schedule needs besides its records: memory, and who touches it.

It is the compiler's own statement of what each rTask reads and writes, in bytes from the pointer
that its rKernel gets. A checker that shares no code with the compiler proves from it, the records
and the table that the schedule computes what the rOperators would, one after the other
(``docs/program.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.records import Slot

Int64Array = NDArray[np.int64]

ValueKind = Literal["input", "output", "constant", "intermediate", "inout"]
"""An ``inout`` has values before the run, and others after it."""


@dataclass(frozen=True)
class ValuePlace:
    """A tensor that rOperators write and read, and the bytes that hold it."""

    name: str
    kind: ValueKind
    place: Slot
    num_bytes: int


@dataclass(frozen=True, eq=False)
class BoxAccess:
    """What each rTask of an rKernel touches of one argument, as strided boxes of bytes.

    rTask ``t`` touches ``element_bytes`` bytes from each of
    ``offsets[t] + sum(k[i] * strides[i])`` on, for all ``0 <= k[i] < sizes[t, i]``.

    Attributes:
        argument: number of the buffer.
        element_bytes: size of an element.
        offsets: int64 [num_rtasks], bytes from the pointer.
        sizes: int64 [num_rtasks, rank], elements.
        strides: bytes, one for each dimension.
    """

    argument: int
    element_bytes: int
    offsets: Int64Array
    sizes: Int64Array
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class KernelAccesses:
    """What the rTasks of an rKernel touch.

    Attributes:
        num_rtasks: rTasks of an rOperator with this rKernel.
        reads: elements that they read.
        writes: elements that they write, each by one rTask.
        updates: elements that they may read and write, also several of them (atomics);
            rOperators that update one value do so in the program's order.
        is_exclusive: whether no other rTask runs beside its own.
    """

    num_rtasks: int
    reads: tuple[BoxAccess, ...]
    writes: tuple[BoxAccess, ...]
    updates: tuple[BoxAccess, ...]
    is_exclusive: bool = False


@dataclass(frozen=True, eq=False)
class Proof:
    """Memory and accesses of a program.

    Attributes:
        values: the tensors by number.
        kernels: for each rKernel of the program.
        operands: for each rOperator of the program, the value of each buffer of its rKernel.
    """

    values: tuple[ValuePlace, ...]
    kernels: tuple[KernelAccesses, ...]
    operands: tuple[tuple[int, ...], ...]

    @property
    def exclusive(self) -> frozenset[int]:
        """The numbers of the rKernels whose rTasks have the device to themselves."""
        return frozenset(n for n, kernel in enumerate(self.kernels) if kernel.is_exclusive)

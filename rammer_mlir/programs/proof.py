"""Describes a program's memory layout and accesses, for a checker that proves its schedule.

The compiler states which bytes each rTask reads and writes, as offsets from the pointers that the
rTask's rKernel receives. A checker that shares no code with the compiler reads this statement, the
records and the task table. It proves that the schedule has the same results as executing the
rOperators one after another (``docs/program.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.records import Slot

Int64Array = NDArray[np.int64]

ValueKind = Literal["input", "output", "constant", "intermediate", "inout"]
"""Kinds of values; an ``inout`` is an input that a run overwrites."""


@dataclass(frozen=True)
class ValuePlace:
    """A tensor that rOperators access, and its memory.

    Attributes:
        name: name of the tensor.
        kind: whether it is an input, an output, a weight or an intermediate.
        place: start of the tensor in memory.
        num_bytes: size in bytes.
    """

    name: str
    kind: ValueKind
    place: Slot
    num_bytes: int


@dataclass(frozen=True, eq=False)
class BoxAccess:
    """The bytes of an rKernel's argument that each rTask accesses, as one strided box per rTask.

    rTask ``t`` accesses ``element_bytes`` bytes at ``offsets[t] + sum(k[i] * strides[i])`` for all
    ``0 <= k[i] < sizes[t, i]``.

    Attributes:
        argument: index of the rKernel's argument.
        element_bytes: size of an element in bytes.
        offsets: int64 [num_rtasks], bytes from the argument's pointer.
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
    """The accesses of all rTasks of an rKernel.

    Attributes:
        num_rtasks: number of rTasks of each rOperator with this rKernel.
        reads: elements that the rTasks read.
        writes: elements that the rTasks write; each element is written by only one rTask.
        updates: elements that rTasks read and write by atomic operations; several rTasks may update
            the same element. rOperators that update the same tensor do so in program order.
        is_exclusive: whether an rTask of this rKernel must run alone on the device.
    """

    num_rtasks: int
    reads: tuple[BoxAccess, ...]
    writes: tuple[BoxAccess, ...]
    updates: tuple[BoxAccess, ...]
    is_exclusive: bool = False


@dataclass(frozen=True, eq=False)
class Proof:
    """Memory layout and accesses of a program.

    Attributes:
        values: the tensors; ``operands`` refers to them by index.
        kernels: accesses of each rKernel.
        operands: for each rOperator, the indices in ``values`` of the tensors passed to its
            rKernel, in argument order.
    """

    values: tuple[ValuePlace, ...]
    kernels: tuple[KernelAccesses, ...]
    operands: tuple[tuple[int, ...], ...]

    @property
    def exclusive(self) -> frozenset[int]:
        """The indices of the rKernels whose rTasks must run alone on the device."""
        return frozenset(n for n, kernel in enumerate(self.kernels) if kernel.is_exclusive)

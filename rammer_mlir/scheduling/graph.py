"""The task graph: rOperators, their rKernels, and the parts of buffers that each rTask touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]

BufferKind = Literal["input", "output", "constant", "intermediate", "inout"]
"""An ``inout`` has values before the run, and others after it."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """What each rTask of an rKernel touches of one argument, as strided boxes of flat memory.

    rTask ``t`` touches the elements ``offsets[t] + sum(k[i] * strides[i])`` for all
    ``0 <= k[i] < sizes[t, i]``, counted from the start of the argument.

    Attributes:
        offsets: int64 array of shape [num_rtasks].
        sizes: int64 array of shape [num_rtasks, rank].
        strides: one stride in elements per dimension.
    """

    offsets: Int64Array
    sizes: Int64Array
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Access:
    """An argument of an rKernel (0 is the first buffer) and what its rTasks touch of it."""

    argument: int
    boxes: Boxes


COLD_BYTES, FAR_BYTES = 16 << 20, 128 << 20
"""Other memory that is read before an rOperator is measured: beyond a core's own cache, and beyond
the part of a shared cache that one program can count on."""


@dataclass(frozen=True)
class MeasuredSeconds:
    """Measured time of one rTask in seconds, averaged over all of an rOperator's.

    Attributes:
        hot: when what it touches is in a core's own cache, though not in the first, smallest one.
        cold: when ``COLD_BYTES`` of other memory were touched since.
        far: when ``FAR_BYTES`` were.
    """

    hot: float
    cold: float
    far: float


@dataclass(frozen=True)
class Reuse:
    """A part of the memory that an rOperator touches, and for how long nobody has touched it.

    Attributes:
        distance: bytes that the program touches between two uses of this memory, itself included.
        num_bytes: size of this part, for all rTasks together.
    """

    distance: int
    num_bytes: float


@dataclass(frozen=True, eq=False)
class RKernel:
    """One implementation of an rOperator: its rTasks and what each costs (RAMMER section 3.1).

    Equal rKernels are one object: work that depends on the rKernel alone is kept per object.

    Attributes:
        num_rtasks: the paper's ``get_total_rtask_num``.
        writes: what each rTask writes; no other rTask writes these elements.
        updates: what each rTask may read and write, at most; rTasks of one rKernel may share
            elements (atomics), and operators that update one buffer do so in the graph's order.
        flops_per_rtask: scalar operations of one full rTask.
        bytes_per_rtask: bytes that one full rTask reads and writes.
        threads, shared_memory, barriers: threads, bytes of block-local memory, and block-level
            synchronisations of one rTask.
        measured: time of one rTask where it was measured.
        reuse: where in a program that runs again and again its memory was used last; empty if
            unknown.
        module: name of the code from elsewhere that it is; empty for the compiler's own.
        is_exclusive: whether its only rTask uses the whole device: no other rTask runs beside it.
    """

    name: str
    num_rtasks: int
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    flops_per_rtask: int = 0
    bytes_per_rtask: int = 0
    threads: int = 1
    shared_memory: int = 0
    barriers: int = 0
    updates: tuple[Access, ...] = ()
    measured: MeasuredSeconds | None = None
    reuse: tuple[Reuse, ...] = ()
    module: str = ""
    is_exclusive: bool = False


@dataclass(frozen=True)
class Buffer:
    """Memory that rOperators read and write.

    Every element is written by exactly one rTask, unless an rKernel updates the buffer.

    Attributes:
        name: for people.
        num_elements, element_bytes: its size.
        kind: who gives it.
        after: numbers of buffers whose memory it takes over: it is written when all operators that
            come before the writer and touch one of these have ended.
    """

    name: str
    num_elements: int
    element_bytes: int
    kind: BufferKind
    after: tuple[int, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""
        return self.num_elements * self.element_bytes


@dataclass(frozen=True)
class View:
    """An operand: a buffer's number and the element at which the operand starts."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class ROperator:
    """A set of independent, equal rTasks, with candidate rKernels and the views they work on."""

    name: str
    kernels: tuple[RKernel, ...]
    operands: tuple[View, ...]


@dataclass(frozen=True)
class TaskGraph:
    """rOperators in a valid sequential order, and the buffers between them."""

    buffers: tuple[Buffer, ...]
    operators: tuple[ROperator, ...]

    @property
    def inouts(self) -> frozenset[int]:
        """Return the buffers that have values before the run, and others after it."""
        return frozenset(n for n, buffer in enumerate(self.buffers) if buffer.kind == "inout")

    def task_name(self, operator: int, rtask: int) -> str:
        """Return how messages name an rTask."""
        return f"{self.operators[operator].name}[{rtask}]"

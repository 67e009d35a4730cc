"""Defines the task graph: rOperators, their rKernels, and the elements that each rTask touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]

BufferKind = Literal["input", "output", "constant", "intermediate", "inout"]
"""The kinds of buffers; an ``inout`` buffer has values both before and after the run."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """The elements of an argument that each rTask of an rKernel touches, as strided boxes.

    Attributes:
        offsets: [num_rtasks]: first element of each rTask's box, from the argument's start.
        sizes: [num_rtasks, num_dims]: size of each rTask's box along each dimension.
        strides: elements between neighbors along each dimension, equal for all boxes.
    """

    offsets: Int64Array
    sizes: Int64Array
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Access:
    """A use of an argument of an rKernel: the box of elements that each rTask touches.

    ``argument`` is the index of the argument among the rKernel's buffer arguments.
    """

    argument: int
    boxes: Boxes


COLD_BYTES, FAR_BYTES = 16 << 20, 128 << 20
"""Bytes of other data that are read before an rOperator is measured with cold and far memory.

``COLD_BYTES`` exceed a core's own cache, ``FAR_BYTES`` the part of a shared cache that a single
program can count on.
"""


@dataclass(frozen=True)
class MeasuredSeconds:
    """Measured seconds of an rTask, averaged over all rTasks of an rOperator.

    Attributes:
        hot: seconds if the rTask's data is in the core's own second-level cache, but not in its
            first-level cache.
        cold: seconds after ``COLD_BYTES`` of other data were touched.
        far: seconds after ``FAR_BYTES`` of other data were touched.
    """

    hot: float
    cold: float
    far: float


@dataclass(frozen=True)
class Reuse:
    """A part of the memory that an rOperator touches, with the part's reuse distance.

    Attributes:
        distance: bytes that the program touches from one use of this part to the next use,
            including the part.
        num_bytes: size of the part in bytes, for all rTasks together.
    """

    distance: int
    num_bytes: float


@dataclass(frozen=True, eq=False)
class RKernel:
    """One implementation of an rOperator: its rTasks and their costs (RAMMER section 3.1).

    Equal rKernels are the same object, so that results that depend on the rKernel alone can be
    memoized by identity. A full rTask has a tile that is not cut off at a border.

    Attributes:
        num_rtasks: the number of rTasks; the paper's ``get_total_rtask_num``.
        reads: the elements that each rTask reads.
        writes: the elements that each rTask writes; no other rTask writes these.
        updates: a superset of the elements that each rTask updates in place. rTasks of an rKernel
            may update the same elements (by atomics), and operators that update the same buffer
            run in graph order.
        flops_per_rtask: scalar operations of a full rTask.
        matrix_element: element type of the matrix instructions that compute most of these
            operations; empty if the rKernel has no matrix instructions.
        bytes_per_rtask: bytes that a full rTask reads and writes.
        threads: threads of an rTask.
        shared_memory: bytes of block-local memory of an rTask.
        barriers: block-level synchronizations of an rTask.
        measured: seconds of an rTask; None if not measured.
        reuse: reuse distances of the memory that the rKernel touches, in a program that runs
            repeatedly; empty if unknown.
        module: name of the foreign code that implements the rKernel; empty for code of the
            compiler.
        is_exclusive: whether the rKernel has a single rTask, which uses the whole device: no other
            rTask may run at the same time.
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
    matrix_element: str = ""


@dataclass(frozen=True)
class Buffer:
    """Memory that rOperators read and write.

    An element that rOperators write is written by exactly one rTask, unless an rKernel updates the
    buffer.

    Attributes:
        name: for messages.
        num_elements: size of the buffer in elements.
        element_bytes: size of an element in bytes.
        kind: whether the buffer is an input, output, constant, intermediate or ``inout``; an
            ``inout`` buffer has values before the run and new values after it.
        after: indices of the buffers whose memory this buffer takes over. A writer of this buffer
            waits for all earlier operators that touch one of those buffers.
    """

    name: str
    num_elements: int
    element_bytes: int
    kind: BufferKind
    after: tuple[int, ...] = ()

    @property
    def num_bytes(self) -> int:
        """The size of the buffer in bytes."""
        return self.num_elements * self.element_bytes


@dataclass(frozen=True)
class View:
    """An operand of an rOperator: a buffer's index, and the element where the operand starts."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class ROperator:
    """A set of independent, equal rTasks.

    Attributes:
        name: the name of the operator in the model.
        kernels: the candidate rKernels.
        operands: for each operand, the buffer and the element where the operand starts.
        home: the vEU that should run all rTasks of the operator, because this vEU's cache has the
            data of the rTasks; None for any vEU. If a policy ignores homes, its plans are correct
            but take longer.
    """

    name: str
    kernels: tuple[RKernel, ...]
    operands: tuple[View, ...]
    home: int | None = None


@dataclass(frozen=True)
class TaskGraph:
    """A graph of rOperators in a topological order, and the buffers between them."""

    buffers: tuple[Buffer, ...]
    operators: tuple[ROperator, ...]

    @property
    def inouts(self) -> frozenset[int]:
        """The indices of the ``inout`` buffers."""
        return frozenset(n for n, buffer in enumerate(self.buffers) if buffer.kind == "inout")

    def task_name(self, operator: int, rtask: int) -> str:
        """Return the name of rTask ``rtask`` of operator ``operator``, for messages."""
        return f"{self.operators[operator].name}[{rtask}]"

"""Defines primitives and tables of primitives; they contain no library's enum values.

A *table* lists the primitives of a region, called nodes, and the values that they read and write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from math import prod

from rammer_mlir.codegens.primitives.region_values import Value
from rammer_mlir.codegens.primitives.views import Dims


class Kind(IntEnum):
    """Kinds of primitives; ELTWISE is a unary function of each element, REORDER a copy."""

    CONVOLUTION = 0
    MATMUL = 1
    POOLING = 2
    ELTWISE = 3
    SOFTMAX = 4
    BINARY = 5
    CONCAT = 6
    RESAMPLING = 7
    REDUCTION = 8
    REORDER = 9


class Layout(IntEnum):
    """Layout in which a primitive accesses an operand.

    - ``NOW``: the layout that the value already has.
    - ``ANY``: a layout that the library chooses.
    - ``PLAIN``: row-major.
    - ``PACKED``: the library's layout of constant weights.
    """

    NOW = 0
    ANY = 1
    PLAIN = 2
    PACKED = 3


class Role(IntEnum):
    """Role of an operand in its primitive.

    - ``RESULT``: the result.
    - ``SOURCE``: the first operand.
    - ``WEIGHTS``: weights, or the second operand of a binary primitive.
    - ``BIAS``: the bias of a contraction.
    - ``PART``: an input of a concatenation.
    - ``POST``: the second operand of a binary post operation.
    """

    RESULT = 0
    SOURCE = 1
    WEIGHTS = 2
    BIAS = 3
    PART = 4
    POST = 5


@dataclass(frozen=True)
class Function:
    """The function of a primitive: an element-wise function, a pooling or a reduction.

    ``alpha`` and ``beta`` are the function's parameters, in the order of the operation's
    attributes. ``linear`` is ``alpha * x + beta``, ``power`` is ``x ** alpha``, ``clip`` is
    ``min(max(x, alpha), beta)``.
    """

    name: str = ""
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Operand:
    """An operand of a primitive.

    Attributes:
        role: the operand's role in the primitive.
        value: index of the operand's value in ``Table.values``.
        layout: the layout in which the primitive accesses the operand.
        is_whole: whether every rTask reads the whole operand, not only a part of the batch.
    """

    role: Role
    value: int
    layout: Layout = Layout.NOW
    is_whole: bool = False


@dataclass(frozen=True)
class Windows:
    """Windows of a convolution or pooling; each field has an element per spatial axis.

    A dilation of 0 means adjacent elements. ``low`` and ``high`` are the padding, in elements,
    before and after the data.
    """

    strides: Dims = ()
    dilations: Dims = ()
    low: Dims = ()
    high: Dims = ()
    kernel: Dims = ()

    @property
    def are_points(self) -> bool:
        """Whether each window is a single element, with stride 1 and without padding."""
        return set((*self.strides, *self.kernel)) <= {1} and not any((*self.low, *self.high))


@dataclass(frozen=True)
class Node:
    """A primitive.

    Attributes:
        kind: kind of the primitive.
        operands: the result at index 0, the input at 1; weights or a second input at 2, a bias at
            3.
        function: the primitive's function, for kinds with several functions.
        axis: axis of softmax and concatenations.
        windows: windows of convolutions and poolings.
        posts: post operations: element-wise functions of the primitive's result, in order.
        read: second operands of the binary post operations, in order.
    """

    kind: Kind
    operands: tuple[Operand, ...]
    function: Function = field(default_factory=Function)
    axis: int = 0
    windows: Windows = field(default_factory=Windows)
    posts: tuple[Function, ...] = ()
    read: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Table:
    """The values and primitives of a region; each rTask computes an equal part of the batch.

    Attributes:
        values: inputs, outputs and intermediate results as views; other fields refer to them by
            index.
        nodes: primitives in topological order.
        num_inputs: number of buffers that the region reads.
        num_buffers: number of buffers that the region reads or writes; a scratch buffer follows
            them.
        parts: number of rTasks.
    """

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    num_inputs: int
    num_buffers: int
    parts: int = 1

    @property
    def operands(self) -> Iterator[Operand]:
        """Yield all operands of the primitives."""
        for node in self.nodes:
            yield from (*node.operands, *node.read)

    @property
    def is_packed(self) -> bool:
        """Whether any operand of the primitives has the layout ``PACKED``."""
        return any(each.layout == Layout.PACKED for each in self.operands)

    @cached_property
    def whole(self) -> set[int]:
        """The indices of the values that every rTask reads entirely."""
        return {each.value for each in self.operands if each.is_whole}

    @property
    def batch(self) -> int:
        """The batch size if rTasks can compute parts of the batch independently; otherwise 1.

        For this, all values except those that every rTask reads entirely must have the same first
        dimension, and no primitive may combine elements along this dimension.
        """
        parts = {each.value for each in self.operands if not each.is_whole}
        first = {self.values[number].view.dims[0] for number in parts}
        along = (Kind.SOFTMAX, Kind.CONCAT)
        is_along = any(not node.axis for node in self.nodes if node.kind in along)
        views = [n for n, value in enumerate(self.values) if value.source >= 0]
        is_moved = any(n in self.whole or not self._is_piece(n) for n in views)
        joined = parts & self.whole or is_along or is_moved or self._has_batched_weights
        is_apart = not joined and len(first) == 1
        return first.pop() if is_apart else 1

    @property
    def _has_batched_weights(self) -> bool:
        """Whether packed weights, which cannot be split, have a matrix per index of the batch."""
        products = (node for node in self.nodes if node.kind == Kind.MATMUL)
        packed = (o for node in products for o in node.operands if o.layout == Layout.PACKED)
        return any(prod(self.values[each.value].view.dims[:-2]) > 1 for each in packed)

    def split_buffers(self) -> set[int]:
        """Return the indices of the buffers that are split: each rTask accesses a contiguous part.

        The set is empty if there is a single rTask.
        """
        pieces = {n for n in range(len(self.values)) if n not in self.whole and self._is_piece(n)}
        buffers = {value.buffer for value in self.values if value.buffer >= 0}
        whole = {value.buffer for n, value in enumerate(self.values) if n not in pieces}
        return buffers - whole if self.parts > 1 else set()

    def _is_piece(self, number: int) -> bool:
        """Whether each range of indices along a value's first dimension is contiguous in memory.

        ``number`` is the index of the value.
        """
        view = self.values[number].view
        return view.strides[0] * view.dims[0] == prod(view.dims)

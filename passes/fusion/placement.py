"""Assigns a buffer and a layout to each tensor of the data-flow graph.

Views cost nothing and concatenations are computed in place: a value that is returned or
concatenated is computed directly in its final buffer. There is a *conflict* if strides cannot
express the layout of a view, or if a value would have to be stored in two places. A copy resolves a
conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import CONCAT, VIEWS, is_cloned
from rammer_mlir.passes.ir.constants import is_constant
from rammer_mlir.passes.ir.layout import Layout
from rammer_mlir.passes.ir.reshapes import RESHAPES, reassociation
from rammer_mlir.passes.ir.structured import element_bytes, shape_of


@dataclass(frozen=True)
class Storage:
    """The buffer and the layout of a tensor.

    Attributes:
        root: identifies the buffer: the argument that is passed in it, or the result for which it
            is allocated; for an output of the entry function, the output's index.
        layout: the offset of the tensor in the buffer and its strides, in elements.
    """

    root: ir.Value | int
    layout: Layout

    @classmethod
    def own(cls, value: ir.Value) -> Self:
        """Return the storage of a tensor that has a separate, dense buffer."""
        return cls(value, Layout.row_major(shape_of(value)))


@dataclass(frozen=True)
class Conflict:
    """A conflict of placement: operand ``index`` of ``user`` has to be copied before it is read."""

    user: ir.OpView
    index: int


@dataclass
class Placement:
    """The placement of the tensors of an entry block in buffers.

    Attributes:
        storage: the buffer and layout of each tensor.
        conflicts: the operands that need a copy, in the order in which they were found.
    """

    storage: dict[ir.Value, Storage] = field(default_factory=dict[ir.Value, Storage])
    conflicts: list[Conflict] = field(default_factory=list[Conflict])
    _reported: set[tuple[ir.Operation, int]] = field(default_factory=set[tuple[ir.Operation, int]])

    def report(self, user: ir.OpView, index: int) -> None:
        """Add a conflict for operand ``index`` of ``user``, unless it has a conflict already."""
        key = user.operation, index
        if key not in self._reported:
            self._reported.add(key)
            self.conflicts.append(Conflict(user, index))

    def is_callers(self, value: ir.Value) -> bool:
        """Whether a tensor is in an array of the program's caller, whose alignment is unknown."""
        root = self.storage[value].root
        if isinstance(root, int):
            return True
        return isinstance(root.owner, ir.Block) and not is_constant(root)

    def is_aligned(self, value: ir.Value, alignment: int) -> bool:
        """Whether a tensor is known to begin at an address that is a multiple of ``alignment``.

        ``alignment`` is in bytes. It is at most ``ALIGNMENT``, the alignment of all buffers except
        the arrays of the program's caller. A tensor in such an array may begin at any address, so
        the result is False unless ``alignment`` is 1.
        """
        start = self.storage[value].layout.offset * element_bytes(value.type)
        return alignment == 1 or (start % alignment == 0 and not self.is_callers(value))


def place(block: ir.Block) -> Placement:
    """Return the placement of the tensors of an entry block at the `operators` or `tasks` stage.

    A use of a tensor is a conflict

    - if the tensor would have to be stored in two places,
    - if strides cannot express the tensor's layout in its buffer, as for some views,
    - if the tensor has no buffer, because each user has a clone of the operation that computes it.
    """
    placement = Placement()
    operations = list(block.operations)
    requested: dict[ir.Value, Storage] = {}
    # Backwards, so that the place of a result is known before that of its operands.
    for op in reversed(operations):
        _request(op, requested, placement)
    for argument in block.arguments:
        placement.storage[argument] = Storage.own(argument)
    for op in operations[:-1]:
        _resolve(op, requested, placement)
    return placement


def _request(op: ir.OpView, requested: dict[ir.Value, Storage], placement: Placement) -> None:
    """Request a buffer and a layout for the operands of a return, concatenation or reshape.

    The operands are to be computed directly where the operation's result is stored, so that no copy
    is necessary. ``requested`` maps tensors to requested buffers and layouts. A request for an
    operand is added to ``requested``, or becomes a conflict in ``placement`` if it cannot be met. A
    reshape without a request for its result requests nothing.
    """
    name = op.operation.name
    if name == "func.return":
        for index, value in enumerate(op.operation.operands):
            storage = Storage(index, Layout.row_major(shape_of(value)))
            _ask(op, index, storage, requested, placement)
    elif name == CONCAT:
        result = op.operation.results[0]
        whole = requested.setdefault(result, Storage.own(result))
        for index, layout in enumerate(_parts(op, whole.layout)):
            _ask(op, index, Storage(whole.root, layout), requested, placement)
    elif name in RESHAPES:
        wanted = requested.get(op.operation.results[0])
        if wanted is not None:
            layout = _undo_reshape(op, wanted.layout)
            assert layout is not None, "only reshapes that can be undone are asked for"
            _ask(op, 0, Storage(wanted.root, layout), requested, placement)


def _ask(
    user: ir.OpView,
    index: int,
    storage: Storage,
    requested: dict[ir.Value, Storage],
    placement: Placement,
) -> None:
    value = user.operation.operands[index]
    if 0 in shape_of(value):
        return  # A tensor without elements needs no memory.
    if value in requested or not _can_be_computed_in(value, storage, requested):
        placement.report(user, index)
    else:
        requested[value] = storage


def _can_be_computed_in(
    value: ir.Value, storage: Storage, requested: dict[ir.Value, Storage]
) -> bool:
    """Whether ``value`` can be computed directly in the buffer and layout ``storage``.

    That is possible for the result of an rOperator or a concatenation. The result of a reshape is
    possible if strides can express the layout of the reshape's operand, and the operand can be
    computed in this layout. ``requested`` maps other values to the buffers and layouts already
    requested for them; such a value cannot be that operand.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    name = owner.operation.name
    if name in ("rtask.operator", CONCAT):
        return True
    if name in RESHAPES:
        layout = _undo_reshape(owner.opview, storage.layout)
        source = owner.operation.operands[0]
        if layout is None or source in requested:
            return False
        return _can_be_computed_in(source, Storage(storage.root, layout), requested)
    return False


def _resolve(op: ir.OpView, requested: dict[ir.Value, Storage], placement: Placement) -> None:
    name = op.operation.name
    storage = placement.storage
    if name == "rtask.operator" or name in VIEWS:
        for index, value in enumerate(op.operation.operands):
            if _is_recomputed(value):
                placement.report(op, index)
    if name in ("rtask.operator", CONCAT):
        for result in op.operation.results:
            storage[result] = requested.get(result, Storage.own(result))
        return
    source = storage.get(op.operation.operands[0]) if len(op.operation.operands) == 1 else None
    if source is None:
        return
    layout = view_layout(op, source.layout)
    if layout is None:
        placement.report(op, 0)
    else:
        storage[op.operation.results[0]] = Storage(source.root, layout)


def _is_recomputed(value: ir.Value) -> bool:
    """Whether each user contains a clone of the producer, so that ``value`` needs no buffer."""
    return not isinstance(value.owner, ir.Block) and is_cloned(value.owner.opview)


def _parts(concat: ir.OpView, whole: Layout) -> list[Layout]:
    """Return the layout of each operand of the concatenation ``concat`` in the result's buffer.

    The concatenation is computed in place: each operand is a part of the result, whose layout is
    ``whole``.
    """
    axis = ir.IntegerAttr(concat.operation.attributes["dim"]).value
    parts: list[Layout] = []
    start = 0
    for operand in concat.operation.operands:
        shape = shape_of(operand)
        offsets = [0] * len(shape)
        offsets[axis] = start
        parts.append(whole.slice(offsets, shape, [1] * len(shape)))
        start += shape[axis]
    return parts


def view_layout(op: ir.OpView, source: Layout) -> Layout | None:
    """Return the layout of the result of a reshape or slice; ``source`` is its operand's layout.

    Return None if strides cannot express the result's layout, and for any other operation.
    """
    name = op.operation.name
    if name == "tensor.collapse_shape":
        groups = reassociation(op)
        if not groups:
            return Layout(source.offset, (), ())
        return source.collapse(groups)
    if name == "tensor.expand_shape":
        return source.expand(reassociation(op), shape_of(op.operation.results[0]))
    if name == "tensor.extract_slice":
        attributes = op.operation.attributes
        offsets, sizes, strides = (
            list(ir.DenseI64ArrayAttr(attributes[key]))
            for key in ("static_offsets", "static_sizes", "static_strides")
        )
        return _drop_unit_dims(source.slice(offsets, sizes, strides), op)
    return None


def _drop_unit_dims(layout: Layout, op: ir.OpView) -> Layout:
    """Return ``layout`` without the unit dimensions that the rank-reducing slice ``op`` drops."""
    shape = shape_of(op.operation.results[0])
    if len(shape) == len(layout.sizes):
        return layout
    kept: list[int] = []
    for dim, size in enumerate(layout.sizes):
        left = len(layout.sizes) - dim - 1
        missing = len(shape) - len(kept)
        # A unit dimension is dropped if the remaining dimensions suffice for the rest of the shape.
        if missing and size == shape[len(kept)] and (size != 1 or left >= missing - 1):
            kept.append(dim)
    return Layout(
        layout.offset,
        tuple(layout.sizes[d] for d in kept),
        tuple(layout.strides[d] for d in kept),
    )


def _undo_reshape(op: ir.OpView, result: Layout) -> Layout | None:
    """Return the layout of a reshape's operand, given that its result has the layout ``result``.

    Return None if strides cannot express the operand's layout.
    """
    source_shape = shape_of(op.operation.operands[0])
    if op.operation.name == "tensor.collapse_shape":
        groups = reassociation(op)
        if not groups:
            return Layout(result.offset, tuple(source_shape), (1,) * len(source_shape))
        return result.expand(groups, source_shape)
    groups = reassociation(op)
    if not groups:
        return Layout(result.offset, (), ())
    return result.collapse(groups)

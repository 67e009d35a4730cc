"""`rtask-block-weights`: stores weights of contractions in panels of output channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.contractions.byte_product import adds_adjacent_terms
from rammer_mlir.passes.ir.boxes import PANEL_WIDTHS, WIDEST_PANEL, panel_number, point_of_panel
from rammer_mlir.passes.ir.constants import constant_arguments
from rammer_mlir.passes.ir.entry import callers, computations, entry_function, symbol_name
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.generics import indexing_maps
from rammer_mlir.passes.ir.outline import create_operator
from rammer_mlir.passes.ir.structured import Structured, element_bytes, plain_dim, shape_of
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.passes.tiling.loop_splitting import (
    LoopSplit,
    Panels,
    split_class,
)
from rammer_mlir.passes.tiling.space import TileClass
from rammer_mlir.passes.weights.derived import DerivedWeights

_WIDTHS = (32, 48, 16)
"""Panel widths in order of preference; panels have the first width that divides the channels."""

_LEAST_BYTES = 2
"""Minimum bytes of a result element: a register of smaller elements is wider than a panel."""


@dataclass(frozen=True)
class BlockWeights(Pass):
    """Store weights in consecutive panels, each with 16, 32 or 48 output channels innermost.

    A tile of a contraction then reads its weights as one contiguous stream. If each row of the
    weights contained all channels, the tile would read a few channels of every row, each row on a
    different page, which defeats prefetching. ``width`` is the preferred count of channels in a
    panel, 16 or 32. It should be the count that a register tile computes: if a register tile reads
    only half of each row of a panel, it uses only half of the sets of the first-level cache.
    """

    name: ClassVar[str] = "rtask-block-weights"
    takes: ClassVar[Form | None] = Form.TENSORS

    width: int = WIDEST_PANEL

    def check_options(self) -> None:
        """Raise an OptionError if ``width`` is not a supported panel width."""
        if self.width not in PANEL_WIDTHS:
            raise OptionError(f"{self.name}: width: expected 16 or 32 channels, found {self.width}")

    def run(self, module: ir.Module) -> None:
        """Store constant weights of contractions in panels; adapt the rOperators that read them."""
        main = entry_function(module)
        constants = {weight.value for weight in constant_arguments(main)}
        weights = DerivedWeights(module)
        bodies = {symbol_name(f): f for f in computations(module)}
        for name, calls in callers(module).items():
            function = bodies.get(name)
            if function is None or not function.operation.regions[0].blocks:
                continue
            constant = {
                number
                for number in range(len(calls[0].operands))
                if all(call.operands[number] in constants for call in calls)
            }
            computation = Computation(function)
            weight = _find_weight(computation, constant, self.width)
            if weight is not None and not _split(computation, weight, self.width, calls, weights):
                _pad(computation, weight, self.width, calls, weights)
        weights.finish()


@dataclass(frozen=True)
class _Weight:
    """The constant weights of the contraction in an rOperator's function.

    Attributes:
        argument: the index of the function's argument that holds the weights.
        op: the contraction.
        operand: the index of the contraction's operand that holds the weights.
        lane: the index of the contraction's loop over the output channels.
        layout: the layout of the weights in panels; the dimension of panels stands before the first
            reduction dimension.
        loops: the loop ``lane`` and the loops of the function's other operations that are tiled
            together with it; None if the loop ``lane`` cannot be tiled.
    """

    argument: int
    op: Structured
    operand: int
    lane: int
    layout: Panels
    loops: TileClass | None


def _find_weight(computation: Computation, constant: set[int], width: int) -> _Weight | None:
    """Return the constant weights of a contraction with more than ``width`` output channels.

    The contraction is the first one that has such weights; return None if there is none.
    ``constant`` contains the indices of the arguments of ``computation`` that are known at compile
    time.
    """
    arguments: list[ir.Value] = list(computation.block.arguments)
    known = {arguments[number]: number for number in constant}
    for index, op in enumerate(computation.generics):
        if not op.is_contraction:
            continue
        for position, value in enumerate(op.inputs):
            trailing = 1 if adds_adjacent_terms(op) else 0
            lane = _lane(op, position, trailing) if value in known else None
            if lane is None or op.extents[lane] <= width:
                continue
            dims = [plain_dim(expr) for expr in op.maps[position].results]
            shared = next(n for n, d in enumerate(dims) if d is None or not op.parallel[d])
            layout = Panels(known[value], shared, trailing)
            return _Weight(
                known[value], op, position, lane, layout, _class_of(computation, index, lane)
            )
    return None


def _class_of(computation: Computation, index: int, loop: int) -> TileClass | None:
    """Return the loops that are tiled together with a loop of an operation of the computation.

    ``index`` is the index of the operation in the computation, ``loop`` the index of the loop in
    the operation. Return None if the loop cannot be tiled.
    """
    classes = () if computation.space is None else computation.space.classes
    return next((c for c in classes if c.loops.get(index) == loop), None)


def _lane(op: Structured, position: int, trailing: int) -> int | None:
    """Return the index of the loop over the output channels of a contraction's weights.

    ``position`` is the operand index of the weights. The last ``trailing`` dimensions of the
    weights follow the dimension of output channels. Return None if one of these conditions fails:

    - The loop is parallel and indexes no other input.
    - A reduction loop indexes a dimension of the weights before the output channels.
    - Each dimension of the weights is indexed by a different, single loop.
    """
    dims = [plain_dim(expr) for expr in op.maps[position].results]
    if len(dims) < 2 + trailing or None in dims or len(set(dims)) != len(dims):
        return None
    *before, lane = dims[: len(dims) - trailing]
    if lane is None or not op.parallel[lane] or all(d is None or op.parallel[d] for d in before):
        return None
    shared = any(
        plain_dim(expr) == lane
        for other, map_ in enumerate(op.maps[: len(op.inputs)])
        if other != position
        for expr in map_.results
    )
    return None if shared else lane


def _split(
    computation: Computation,
    weight: _Weight,
    preferred: int,
    calls: Sequence[ir.Operation],
    weights: DerivedWeights,
) -> bool:
    """Split the loops over output channels into loops over panels and within panels.

    The panels have the width ``preferred``, or another supported width that divides the channels.
    The function and the rOperators ``calls``, which call it, are rewritten. Return True on success.
    Return False, and change nothing, if no panel width divides the channels or a loop cannot be
    split.
    """
    extent = weight.op.extents[weight.lane]
    width = next((w for w in (preferred, *_WIDTHS) if extent % w == 0), None)
    if width is None or weight.loops is None:
        return False
    panel = _Panel(weight.layout, width)
    split = split_class(computation, weight.loops, width, panel.layout)
    if split is None:
        return False
    for call in calls:
        _rewrite_call(call, panel, split, weights)
    return True


def _pad(
    computation: Computation,
    weight: _Weight,
    width: int,
    calls: Sequence[ir.Operation],
    weights: DerivedWeights,
) -> None:
    """Store the weights in panels of ``width`` channels; pad the last panel with zeros.

    The loops are unchanged: the contraction indexes the weights by panel and by position in the
    panel. Change nothing if the weights have several uses in the function, or if the element type
    of the contraction's result has fewer than ``_LEAST_BYTES`` bytes.
    """
    value = computation.block.arguments[weight.argument]
    if len(list(value.uses)) != 1 or element_bytes(weight.op.outputs[0].type) < _LEAST_BYTES:
        return
    layout = weight.layout
    exprs = list(weight.op.maps[weight.operand].results)
    place = layout.place(len(exprs))
    del exprs[place]
    channel = ir.AffineExpr.get_dim(weight.lane)
    exprs = layout.arrange(exprs, panel_number(channel, width), point_of_panel(channel, width))
    maps = list(weight.op.maps)
    maps[weight.operand] = ir.AffineMap.get(len(weight.op.parallel), 0, exprs)
    weight.op.op.operation.attributes["indexing_maps"] = indexing_maps(maps)
    padded_shape = shape_of(value)
    panels = -(-padded_shape[place] // width)
    rest = [*padded_shape[:place], *padded_shape[place + 1 :]]
    shape = layout.arrange(rest, panels, width)
    padded_shape[place] = panels * width
    value.set_type(ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type))
    update_function_type(computation.function.operation)
    for call in calls:
        padded = weights.pad(call.operands[weight.argument], padded_shape)
        panel = _Panel(layout, width)
        call.operands[weight.argument] = _pack(padded, panel, weights)


@dataclass(frozen=True)
class _Panel:
    """The layout of weights in panels, and the panel width.

    ``layout`` tells which dimensions of the weights index the panels and the channels within a
    panel; ``width`` is the count of output channels in a panel.
    """

    layout: Panels
    width: int


def _rewrite_call(
    call: ir.Operation, panel: _Panel, split: LoopSplit, weights: DerivedWeights
) -> None:
    """Replace an rOperator by one that reads its weights in panels.

    ``split`` lists dimensions of the other operands and of the results that are split into two
    dimensions. The users of the old results read views with the old shapes.
    """
    with ir.InsertionPoint(call), call.location:
        operands = [
            _pack(value, panel, weights)
            if number == panel.layout.argument
            else _expand(value, split.arguments.get(number), panel.width)
            for number, value in enumerate(call.operands)
        ]
    (kernel,) = ir.ArrayAttr(call.attributes["kernels"])
    kinds = [
        _split_type(result.type, split.results.get(number), panel.width)
        for number, result in enumerate(call.results)
    ]
    name = ir.FlatSymbolRefAttr(kernel).value
    new = create_operator(name, operands, kinds, call.location, ir.InsertionPoint(call))
    with ir.InsertionPoint(call), call.location:
        for number, (old, value) in enumerate(zip(call.results, new.results, strict=True)):
            dim = split.results.get(number)
            if dim is not None:
                groups = _groups(len(shape_of(old)), dim)
                value = tensor.CollapseShapeOp(old.type, value, groups).result
            old.replace_all_uses_with(value)
    call.erase()


def _pack(value: ir.Value, panel: _Panel, weights: DerivedWeights) -> ir.Value:
    """Return the weights transposed to [leading dims, panels, reduction dims, panel's channels]."""
    shape = shape_of(value)
    place = panel.layout.place(len(shape))
    split = [shape[place] // panel.width, panel.width]
    rest = [n + (n > place) for n in range(len(shape)) if n != place]
    order = panel.layout.arrange(rest, place, place + 1)
    return weights.transpose(value, order, [*shape[:place], *split, *shape[place + 1 :]])


def _expand(value: ir.Value, dim: int | None, width: int) -> ir.Value:
    """Return a view of ``value`` with dimension ``dim`` split into blocks of ``width`` elements.

    If ``dim`` is None, return ``value`` itself.
    """
    if dim is None:
        return value
    kind = _split_type(value.type, dim, width)
    groups = _groups(len(shape_of(value)), dim)
    shape = list(ir.RankedTensorType(kind).shape)
    return tensor.ExpandShapeOp(kind, value, groups, [], shape).result


def _split_type(kind: ir.Type, dim: int | None, width: int) -> ir.Type:
    if dim is None:
        return kind
    ranked = ir.RankedTensorType(kind)
    shape = list(ranked.shape)
    shape[dim : dim + 1] = [shape[dim] // width, width]
    return ir.RankedTensorType.get(shape, ranked.element_type)


def _groups(rank: int, dim: int) -> list[list[int]]:
    """Return the reassociation of a reshape that splits dimension ``dim`` in two, or its inverse.

    The smaller shape has ``rank`` dimensions. Group ``dim`` contains two dimensions of the larger
    shape, each other group contains a single dimension.
    """
    before = [[d] for d in range(dim)]
    return [*before, [dim, dim + 1], *([d] for d in range(dim + 2, rank + 1))]

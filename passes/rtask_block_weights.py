"""`rtask-block-weights`: the weights of contractions lie in panels of a few output channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.constants import constant_arguments
from rammer_mlir.passes.ir.entry import (
    callers,
    entry_function,
    functions,
    is_private,
    symbol_name,
)
from rammer_mlir.passes.ir.outline import create_operator
from rammer_mlir.passes.ir.structured import Structured, plain_dim, shape_of
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.passes.tiling.loop_splitting import LoopSplit, Panels, split_class
from rammer_mlir.passes.tiling.space import TileClass
from rammer_mlir.passes.weights.derived import DerivedWeights

_WIDTHS = (32, 64, 48, 16, 56, 40, 24)
"""Panel widths in channels, the preferred one first: whole registers of 512 or 256 bits."""

_WIDEST = 32
"""Up to so many channels, the weights are one panel already."""


@dataclass(frozen=True)
class BlockWeights(Pass):
    """Store weights as one panel after the other, each with a few output channels innermost.

    A tile of a contraction then reads its weights as one contiguous stream. In rows of all the
    channels it would read a few of every row: each on another page, and prefetched in vain.
    """

    name: ClassVar[str] = "rtask-block-weights"

    def run(self, module: ir.Module) -> None:
        """Split the loop over output channels of every contraction whose weights are constant."""
        main = entry_function(module)
        constants = {weight.value for weight in constant_arguments(main)}
        weights = DerivedWeights(module)
        bodies = {symbol_name(f): f for f in functions(module) if is_private(f)}
        for name, calls in callers(module).items():
            function = bodies.get(name)
            if function is None or not function.operation.regions[0].blocks:
                continue
            constant = {
                number
                for number in range(len(calls[0].operands))
                if all(call.operands[number] in constants for call in calls)
            }
            panel = _find_panel(Computation(function), constant)
            if panel is None:
                continue
            split = split_class(Computation(function), panel.loops, panel.width, panel.layout)
            if split is not None:
                for call in calls:
                    _rewrite_call(call, panel, split, weights)
        weights.finish()


@dataclass(frozen=True)
class _Panel:
    """The weights of a function: where their panels go, loops over channels, width of a panel."""

    layout: Panels
    loops: TileClass
    width: int


def _find_panel(computation: Computation, constant: set[int]) -> _Panel | None:
    """Return the weights of the function's one contraction, if they are wide enough to be split.

    ``constant`` are the numbers of the arguments whose values are known at compile time.
    """
    space = computation.space
    if space is None:
        return None
    arguments: list[ir.Value] = list(computation.block.arguments)
    known = {arguments[number]: number for number in constant}
    for index, op in enumerate(space.operations):
        if not op.is_contraction:
            continue
        for position, value in enumerate(op.inputs):
            lane = _lane(op, position) if value in known else None
            if lane is None or shape_of(value)[-1] <= _WIDEST:
                continue
            width = next((w for w in _WIDTHS if op.extents[lane] % w == 0), None)
            loops = next((c for c in space.classes if c.loops.get(index) == lane), None)
            if width is None or loops is None:
                continue
            dims = [plain_dim(expr) for expr in op.maps[position].results]
            shared = next(n for n, d in enumerate(dims) if d is None or not op.parallel[d])
            return _Panel(Panels(known[value], shared), loops, width)
    return None


def _lane(op: Structured, position: int) -> int | None:
    """Return the innermost loop of an operand if it is parallel, its own, behind a reduction."""
    dims = [plain_dim(expr) for expr in op.maps[position].results]
    if len(dims) < 2 or None in dims or len(set(dims)) != len(dims):
        return None
    *before, lane = dims
    if lane is None or not op.parallel[lane] or all(d is None or op.parallel[d] for d in before):
        return None
    shared = any(
        plain_dim(expr) == lane
        for other, map_ in enumerate(op.maps[: len(op.inputs)])
        if other != position
        for expr in map_.results
    )
    return None if shared else lane


def _rewrite_call(
    call: ir.Operation, panel: _Panel, split: LoopSplit, weights: DerivedWeights
) -> None:
    """Pass views of the operands, and the weights in panels; return views of the results."""
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
    """Return the weights in panels: groups, panels, reductions, channels of a panel."""
    *rest, channels = shape_of(value)
    blocks = len(rest)
    order = panel.layout.arrange(list(range(blocks)), blocks, blocks + 1)
    return weights.transpose(value, order, [*rest, channels // panel.width, panel.width])


def _expand(value: ir.Value, dim: int | None, width: int) -> ir.Value:
    """Return a view with a dimension split into blocks and their elements."""
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
    """Return the reassociation of a view whose dimension ``dim`` is two on the other side."""
    before = [[d] for d in range(dim)]
    return [*before, [dim, dim + 1], *([d] for d in range(dim + 2, rank + 1))]

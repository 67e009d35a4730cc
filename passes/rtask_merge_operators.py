"""`rtask-merge-operators`: convolutions of one image become one (IOS section 3, operator merge)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from rammer_mlir.bindings import arith, ir, linalg, tensor
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.cloning import ValueMap, clone_into
from rammer_mlir.passes.convolution import Convolution, find_convolution
from rammer_mlir.passes.derived_weights import DerivedWeights
from rammer_mlir.passes.entry import entry_block
from rammer_mlir.passes.merged_weights import WeightPart
from rammer_mlir.passes.structured import Structured, shape_of


@dataclass(frozen=True)
class MergeOperators(Pass):
    """Compute convolutions that read the same image as one, and split its result.

    Their kernels are padded with zeros to the largest, where its windows begin and end; biases and
    activations behind them are merged as well. They are merged if that multiplies the arithmetic
    by no more than ``growth``: 1 merges kernels of equal size only.
    """

    name: ClassVar[str] = "rtask-merge-operators"

    growth: float = 1.0

    def run(self, module: ir.Module) -> None:
        """Merge what can be merged in the entry function."""
        if not 1 <= self.growth < float("inf"):
            raise OptionError(
                "rtask-merge-operators: growth: expected at least 1 and finite, found "
                f"{self.growth}"
            )
        weights = DerivedWeights(module)
        alike: dict[object, list[Convolution]] = {}
        for op in entry_block(module).operations:
            found = find_convolution(op, weights)
            if found is not None:
                alike.setdefault(found.kind, []).append(found)
        for members in alike.values():
            for group in _groups(members, self.growth):
                # What was merged before may have taken the place of an image.
                again = (find_convolution(member.op, weights) for member in group)
                _merge([member for member in again if member is not None], weights)
        weights.finish()


def _groups(members: Sequence[Convolution], growth: float) -> list[list[Convolution]]:
    """Put every convolution into the first group that it does not make too large."""
    found: list[list[Convolution]] = []
    for member in members:
        for group in found:
            if _Window.around([*group, member]).work([*group, member]) <= growth * sum(
                other.work for other in [*group, member]
            ):
                group.append(member)
                break
        else:
            found.append([member])
    return [group for group in found if len(group) > 1]


@dataclass(frozen=True)
class _Window:
    """The window that holds the windows of all: padding in front, and size, rows and columns."""

    low: tuple[int, int]
    size: tuple[int, int]

    @staticmethod
    def around(members: Sequence[Convolution]) -> _Window:
        low = tuple(max(m.low[d] for m in members) for d in range(2))
        size = tuple(max(low[d] - m.low[d] + m.window[d] for m in members) for d in range(2))
        return _Window((low[0], low[1]), (size[0], size[1]))

    def work(self, members: Sequence[Convolution]) -> int:
        """Return the multiplications of one output pixel and input channel, all members merged."""
        return sum(m.filters for m in members) * self.size[0] * self.size[1]


def _merge(group: Sequence[Convolution], weights: DerivedWeights) -> None:
    first = group[0]
    window = _Window.around(group)
    # In front of the first, where the image exists and nobody reads a result yet; weights are
    # arguments, and constants stand at the function's beginning.
    with ir.InsertionPoint(first.op), first.op.operation.location:
        image = _padded(first, window)
        kernel = weights.join([_part(member, window) for member in group])
        merged = _convolve(first, image, kernel, window)
        for position in range(len(first.chain)):
            merged = _epilogue([m.chain[position] for m in group], merged, weights)
        _split(group, merged)
    for member in group:
        for op in reversed((member.op, *member.chain)):
            op.operation.erase()


def _part(member: Convolution, window: _Window) -> WeightPart:
    low = [a - b for a, b in zip(window.low, member.low, strict=True)]
    return WeightPart(
        member.weight,
        [member.filters, member.channels, *member.window],
        [0, 0, *low],
        [member.filters, member.channels, *window.size],
    )


def _padded(first: Convolution, window: _Window) -> ir.Value:
    """Surround the image by the zeros that the merged window reads."""
    shape = shape_of(first.image)
    reach = [(n - 1) * s + k for n, s, k in zip(first.out, first.strides, window.size, strict=True)]
    high = [max(0, r - a - n) for r, a, n in zip(reach, window.low, shape[2:], strict=True)]
    if not any((*window.low, *high)):
        return first.image
    element = ir.RankedTensorType(first.image.type).element_type
    sizes = [*shape[:2], *(a + n + b for a, n, b in zip(window.low, shape[2:], high, strict=True))]
    kind = ir.RankedTensorType.get(sizes, element)
    zero = arith.ConstantOp(element, ir.FloatAttr.get(element, 0.0)).result
    op = tensor.PadOp(kind, first.image, [], [], [0, 0, *window.low], [0, 0, *high])
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * 4)
    with ir.InsertionPoint(block):
        tensor.YieldOp(zero)
    return op.result


def _convolve(first: Convolution, image: ir.Value, kernel: ir.Value, window: _Window) -> ir.Value:
    element = ir.RankedTensorType(first.image.type).element_type
    kind = ir.RankedTensorType.get([first.batch, shape_of(kernel)[0], *first.out], element)
    zero = arith.ConstantOp(element, ir.FloatAttr.get(element, 0.0)).result
    start = linalg.fill(zero, outs=[tensor.EmptyOp(list(kind.shape), element).result])
    dims = [ir.AffineDimExpr.get(number) for number in range(7)]
    n, f, h, w, c, i, j = dims
    rows, columns = h * first.strides[0] + i, w * first.strides[1] + j
    maps = [ir.AffineMap.get(7, 0, e) for e in ([n, c, rows, columns], [f, c, i, j], [n, f, h, w])]
    op = _generic(kind, [image, kernel], start, maps, "pppprrr")
    block = op.regions[0].blocks.append(element, element, element)
    with ir.InsertionPoint(block):
        product = arith.MulFOp(block.arguments[0], block.arguments[1]).result
        linalg.YieldOp([arith.AddFOp(block.arguments[2], product).result])
    return op.results[0]


def _generic(
    kind: ir.Type,
    inputs: Sequence[ir.Value],
    output: ir.Value,
    maps: Sequence[ir.AffineMap],
    loops: str,
) -> ir.OpView:
    names = {"p": "parallel", "r": "reduction"}
    return linalg.GenericOp(
        [kind],
        list(inputs),
        [output],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps]),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{names[p]}>") for p in loops]),
    )


def _epilogue(ops: Sequence[ir.OpView], source: ir.Value, weights: DerivedWeights) -> ir.Value:
    """Merge one step behind each convolution; their values for channels are joined."""
    readings = [Structured(op) for op in ops]
    first = readings[0]
    inputs: list[ir.Value] = []
    for position, value in enumerate(first.inputs):
        if value not in weights:
            inputs.append(source)
            continue
        parts = [reading.inputs[position] for reading in readings]
        inputs.append(
            weights.join([WeightPart(weights[p], shape_of(p), [0], shape_of(p)) for p in parts])
        )
    element = ir.RankedTensorType(ops[0].operation.results[0].type).element_type
    kind = ir.RankedTensorType.get(shape_of(source), element)
    empty = tensor.EmptyOp(list(kind.shape), element).result
    op = _generic(kind, inputs, empty, first.maps, "p" * len(first.parallel))
    old = ops[0].operation.regions[0].blocks[0]
    block = op.regions[0].blocks.append(*[argument.type for argument in old.arguments])
    mapping: ValueMap = dict(zip(old.arguments, block.arguments, strict=True))
    for inner in old.operations:
        clone_into(inner, mapping, ir.InsertionPoint(block))
    return op.results[0]


def _split(group: Sequence[Convolution], merged: ir.Value) -> None:
    """Give each member's readers its channels; who joins them all again gets the whole."""
    offsets = [0, *accumulate(member.filters for member in group)]
    results = [member.result for member in group]
    for use in list(results[0].uses):
        joined = use.owner.operation
        operands = list(joined.operands)
        if joined.name == "tensor.concat" and operands == results and _axis(joined) == 1:
            joined.results[0].replace_all_uses_with(merged)
    element = ir.RankedTensorType(merged.type).element_type
    for member, offset in zip(group, offsets, strict=False):
        kind = ir.RankedTensorType.get([member.batch, member.filters, *member.out], element)
        cut = tensor.ExtractSliceOp(
            kind, merged, [], [], [], [0, offset, 0, 0], list(kind.shape), [1] * 4
        )
        member.result.replace_all_uses_with(cut.result)


def _axis(concat: ir.Operation) -> int:
    return ir.IntegerAttr(concat.attributes["dim"]).value

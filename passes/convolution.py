"""A reading of convolutions: image, window, strides, padding, and what follows on each result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.passes.constants import ConstantArgument
from rammer_mlir.passes.derived_weights import DerivedWeights
from rammer_mlir.passes.fusion import PAD, is_constant_pad
from rammer_mlir.passes.structured import Structured, body_operations, is_generic, shape_of


@dataclass(frozen=True)
class Convolution:
    """A convolution of floats in NCHW order with weights, and steps on its result alone.

    Attributes:
        op: the ``linalg.generic``.
        image: what it reads, without the zeros around it.
        weight: filters, channels, and the window if it is more than one element.
        low: rows and columns of zeros in front of the image.
        window, strides, out: rows and columns of the window, its steps, and the result.
        chain: element-wise operations that follow, each the only reader of the one before.
        kind: equal for convolutions that may be merged.
    """

    op: ir.OpView
    image: ir.Value
    weight: ConstantArgument
    low: tuple[int, int]
    window: tuple[int, int]
    strides: tuple[int, int]
    out: tuple[int, int]
    chain: tuple[ir.OpView, ...]

    @property
    def batch(self) -> int:
        """Number of images."""
        return shape_of(self.image)[0]

    @property
    def channels(self) -> int:
        """Channels of the image."""
        return shape_of(self.image)[1]

    @property
    def filters(self) -> int:
        """Channels of the result."""
        return shape_of(self.op.operation.results[0])[1]

    @property
    def work(self) -> int:
        """Multiplications of one output pixel and input channel."""
        return self.filters * self.window[0] * self.window[1]

    @property
    def result(self) -> ir.Value:
        """The last step's result."""
        last = self.chain[-1] if self.chain else self.op
        return last.operation.results[0]

    @property
    def kind(self) -> object:
        """Same image, strides, size of the result, and steps that differ in weights only."""
        steps = tuple(_body_key(op) for op in self.chain)
        element = str(ir.RankedTensorType(self.result.type).element_type)
        return self.image, self.strides, self.out, element, steps


def find_convolution(op: ir.OpView, weights: DerivedWeights) -> Convolution | None:
    """Read an operation as a convolution; None if it is none, or one of another form."""
    if not is_generic(op) or not _multiplies_and_adds(op):
        return None
    reading = Structured(op)
    if len(reading.inputs) != 2 or reading.inputs[1] not in weights or not _starts_at_zero(reading):
        return None
    if len(reading.parallel) < 5 or any(reading.parallel[4:]) or not all(reading.parallel[:4]):
        return None
    terms = [[_terms(expr) for expr in map_.results] for map_ in reading.maps]
    axes = [_axis(terms[0][place], place) for place in (2, 3) if len(terms[0]) == 4]
    rows, columns = axes if len(axes) == 2 else (None, None)
    if rows is None or columns is None or not _has_usual_order(terms, rows, columns):
        return None
    window = tuple(
        1 if axis.loop is None else reading.extents[axis.loop] for axis in (rows, columns)
    )
    strides = rows.stride, columns.stride
    image, low = _without_padding(reading.inputs[0])
    out = shape_of(op.operation.results[0])[2:]
    return Convolution(
        op, image, weights[reading.inputs[1]], low, (window[0], window[1]), strides,
        (out[0], out[1]), _chain(op, weights),
    )  # fmt: skip


def _multiplies_and_adds(op: ir.OpView) -> bool:
    return [inner.operation.name for inner in body_operations(op)] == ["arith.mulf", "arith.addf"]


def _starts_at_zero(reading: Structured) -> bool:
    """Whether the result starts from zeros, as a fill or the generic that a fill becomes."""
    owner = reading.outputs[0].owner
    if isinstance(owner, ir.Block):
        return False
    start = owner.operation
    if start.name == "linalg.fill":
        filled = start.operands[0]
    elif start.name == "linalg.generic" and not any(body_operations(start.opview)):
        block = start.regions[0].blocks[0]
        filled = list(block.operations)[-1].operation.operands[0]
        if filled == block.arguments[0]:
            filled = start.operands[0]
    else:
        return False
    return not isinstance(filled.owner, ir.Block) and _is_zero(filled.owner.operation)


def _is_zero(op: ir.Operation) -> bool:
    if op.name != "arith.constant" or not isinstance(op.attributes["value"], ir.FloatAttr):
        return False
    return ir.FloatAttr(op.attributes["value"]).value == 0.0


def _terms(expr: ir.AffineExpr) -> dict[int, int] | None:
    """Return the coefficient of each dimension of a sum; None if it is something else."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}
    if isinstance(expr, ir.AffineMulExpr):
        sides = (expr.lhs, expr.rhs)
        dims = [side for side in sides if isinstance(side, ir.AffineDimExpr)]
        factors = [side for side in sides if isinstance(side, ir.AffineConstantExpr)]
        return {dims[0].position: factors[0].value} if dims and factors else None
    if isinstance(expr, ir.AffineAddExpr):
        left, right = _terms(expr.lhs), _terms(expr.rhs)
        return None if left is None or right is None else {**left, **right}
    return None


@dataclass(frozen=True)
class _Axis:
    """Rows or columns: the step from window to window, and the loop over the window if any."""

    stride: int
    loop: int | None


def _axis(terms: dict[int, int] | None, parallel: int) -> _Axis | None:
    """Read ``stride * parallel + loop``; windows of one element have no loop, dilation is none."""
    if terms is None or terms.get(parallel, 0) < 1:
        return None
    others = [(loop, factor) for loop, factor in terms.items() if loop != parallel]
    if not others:
        return _Axis(terms[parallel], None)
    if len(others) > 1 or others[0][1] != 1 or others[0][0] < 5:
        return None
    return _Axis(terms[parallel], others[0][0])


def _has_usual_order(terms: list[list[dict[int, int] | None]], rows: _Axis, columns: _Axis) -> bool:
    """Whether loops are image, filter, row, column, channel, and then those over the window."""
    image, kernel, out = terms
    window = [axis.loop for axis in (rows, columns) if axis.loop is not None]
    return (
        out == [{0: 1}, {1: 1}, {2: 1}, {3: 1}]
        and image[:2] == [{0: 1}, {4: 1}]
        and kernel == [{1: 1}, {4: 1}, *({loop: 1} for loop in window)]
        and window == list(range(5, 5 + len(window)))
    )


def _without_padding(image: ir.Value) -> tuple[ir.Value, tuple[int, int]]:
    """Look through zeros around an image."""
    if isinstance(image.owner, ir.Block) or image.owner.operation.name != PAD:
        return image, (0, 0)
    op = image.owner.operation
    yielded = list(op.regions[0].blocks[0].operations)[-1].operation.operands[0]
    low = list(ir.DenseI64ArrayAttr(op.attributes["static_low"]))
    high = list(ir.DenseI64ArrayAttr(op.attributes["static_high"]))
    owner = yielded.owner
    if isinstance(owner, ir.Block) or not _is_zero(owner.operation):
        return image, (0, 0)
    if not is_constant_pad(op.opview) or any((*low[:2], *high[:2])):
        return image, (0, 0)
    return op.operands[0], (low[2], low[3])


def _chain(op: ir.OpView, weights: DerivedWeights) -> tuple[ir.OpView, ...]:
    """Follow the result while one element-wise operation reads it, with weights by channel."""
    found: list[ir.OpView] = []
    while True:
        result = op.operation.results[0]
        uses = list(result.uses)
        if len(uses) != 1 or not is_generic(uses[0].owner.operation.opview):
            return tuple(found)
        op = uses[0].owner.operation.opview
        if not _is_step(Structured(op), result, weights):
            return tuple(found)
        found.append(op)


def _is_step(reading: Structured, source: ir.Value, weights: DerivedWeights) -> bool:
    if not reading.is_elementwise or reading.num_outputs != 1 or len(reading.parallel) != 4:
        return False
    maps = [[_terms(expr) for expr in map_.results] for map_ in reading.maps]
    whole = [{0: 1}, {1: 1}, {2: 1}, {3: 1}]
    for value, map_ in zip(reading.inputs, maps, strict=False):
        by_channel = value in weights and map_ == [{1: 1}]
        if not (value == source and map_ == whole) and not by_channel:
            return False
    return maps[-1] == whole and not reading.reads_output(0)


def _body_key(op: ir.OpView) -> object:
    """Return a body's operations with their operands' origins; equal bodies compute the same."""
    block = op.operation.regions[0].blocks[0]
    names: dict[Any, object] = {argument: n for n, argument in enumerate(block.arguments)}
    key: list[object] = [str(op.operation.attributes["indexing_maps"])]
    for number, inner in enumerate(block.operations):
        operation = inner.operation
        attributes = tuple((name, str(operation.attributes[name])) for name in operation.attributes)
        operands = tuple(names.get(operand, operand) for operand in operation.operands)
        key.append((operation.name, attributes, operands))
        names.update({result: (number, n) for n, result in enumerate(operation.results)})
    return tuple(key)

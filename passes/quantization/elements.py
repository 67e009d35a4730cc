"""Emits operations of quantized regions: casts of tensors, integer products, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from rammer_mlir.bindings import arith, ir, math, tensor
from rammer_mlir.passes.ir.constant_pad import PAD, find_constant_pad
from rammer_mlir.passes.ir.elementwise import (
    Operand,
    elementwise,
    filled,
    full,
    projection,
    whole,
)
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.structured import Structured, shape_of
from rammer_mlir.passes.quantization.affine import HIGHEST, LOWEST


@dataclass(frozen=True)
class Types:
    """The element types of quantized regions, in the current MLIR context."""

    @cached_property
    def f32(self) -> ir.Type:
        """The type of 32-bit floats."""
        return ir.F32Type.get()

    @cached_property
    def i8(self) -> ir.Type:
        """The type of 8-bit integers."""
        return ir.IntegerType.get_signless(8)

    @cached_property
    def i32(self) -> ir.Type:
        """The type of 32-bit integers."""
        return ir.IntegerType.get_signless(32)


def quantized(source: ir.Value, scale: Operand, zero: Operand) -> ir.Value:
    """Emit the quantization of a tensor to i8, and return the i8 tensor.

    Args:
        source: a tensor of f32.
        scale: the scale, an f32 operand that is broadcast to the tensor.
        zero: the zero point, an i8 operand, or an f32 operand with an integer value; it is
            broadcast to the tensor.
    """
    f32 = Types().f32
    limits = [arith.constant(f32, float(limit)) for limit in (LOWEST, HIGHEST)]
    return elementwise(
        [whole(source), scale, zero], shape_of(source), Types().i8, partial(_quantize, *limits)
    )


def _quantize(low: ir.Value, high: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
    """Emit and return ``i8(clip(round(x / scale) + zero, low, high))``.

    ``values`` contains the block arguments of the loop body: ``x``, ``scale``, ``zero``, and the
    element of the destination, which is not used.
    """
    number, scale, zero, _ = values
    types = Types()
    if zero.type == types.i8:
        zero = arith.sitofp(types.f32, zero)
    moved = arith.addf(math.roundeven(arith.divf(number, scale)), zero)
    # The result for NaN is unspecified, so that each bound is a single instruction.
    flags = ir.Attribute.parse("#arith.fastmath<nnan>")
    clipped = arith.maximumf(moved, low, fastmath=flags)
    return arith.fptosi(types.i8, arith.minimumf(clipped, high, fastmath=flags))


@dataclass(frozen=True)
class DynamicAffine:
    """A scale and a zero point that are computed at run time, as f32 tensors of shape [1]."""

    scale: ir.Value
    zero: ir.Value


def range_of_data(source: ir.Value, tiniest: float, *, is_symmetric: bool) -> DynamicAffine:
    """Emit code that computes the scale and zero point of a tensor from its extremes at run time.

    Return the scale and the zero point. If ``is_symmetric``, the zero point is 0; otherwise, the
    scale and the zero point are computed as in ONNX's DynamicQuantizeLinear. ``tiniest`` is the
    least possible scale.
    """
    f32 = Types().f32
    low, high = _extreme(source, is_largest=False), _extreme(source, is_largest=True)
    zero, least = arith.constant(f32, 0.0), arith.constant(f32, tiniest)
    steps = arith.constant(f32, float(HIGHEST if is_symmetric else HIGHEST - LOWEST))
    bottom, top = (arith.constant(f32, float(limit)) for limit in (LOWEST, HIGHEST))

    def scale_of(elements: Sequence[ir.Value]) -> ir.Value:
        below, above = arith.minimumf(elements[0], zero), arith.maximumf(elements[1], zero)
        extent = (
            arith.maximumf(arith.subf(zero, below), above)
            if is_symmetric
            else arith.subf(above, below)
        )
        return arith.maximumf(arith.divf(extent, steps), least)

    def zero_of(elements: Sequence[ir.Value]) -> ir.Value:
        if is_symmetric:
            return zero
        place = arith.subf(bottom, arith.divf(arith.minimumf(elements[0], zero), elements[1]))
        return math.roundeven(arith.minimumf(arith.maximumf(place, bottom), top))

    scale = elementwise([Operand(low, ()), Operand(high, ())], (1,), f32, scale_of)
    point = elementwise([Operand(low, ()), whole(scale)], (1,), f32, zero_of)
    return DynamicAffine(scale, point)


def _extreme(source: ir.Value, *, is_largest: bool) -> ir.Value:
    f32, rank = Types().f32, len(shape_of(source))
    combine = arith.maximumf if is_largest else arith.minimumf
    out = full((), arith.constant(f32, float("-inf" if is_largest else "inf")))
    maps = [projection(range(rank), rank), projection((), rank)]
    op = generic([source], out, maps, [False] * rank)
    return filled(op, lambda elements: combine(elements[1], elements[0]))


def cast(source: ir.Value, element: ir.Type) -> ir.Value:
    """Emit and return the truncation of an f32 tensor to ``element``, a float type of 16 bits."""
    return elementwise(
        [whole(source)], shape_of(source), element, lambda e: arith.truncf(element, e[0])
    )


def viewed(value: ir.Value, views: Sequence[ir.Operation], border: int) -> ir.Value:
    """Apply the pads and reshapes of an f32 tensor to its quantized counterpart; return the result.

    Args:
        value: the quantized tensor.
        views: the operations on the f32 tensor, in order.
        border: the padding value for ``value``: the zero point.
    """
    element = ir.RankedTensorType(value.type).element_type
    for view in views:
        shape = shape_of(view.results[0])
        kind = ir.RankedTensorType.get(shape, element)
        if view.name == PAD:
            value = _padded(value, view, kind, border)
        else:
            attributes = {name: view.attributes[name] for name in view.attributes}
            value = ir.Operation.create(
                view.name, results=[kind], operands=[value], attributes=attributes
            ).results[0]
    return value


def _padded(value: ir.Value, view: ir.Operation, kind: ir.Type, border: int) -> ir.Value:
    pad = find_constant_pad(view.opview)
    assert pad is not None
    element = ir.RankedTensorType(value.type).element_type
    is_integer = isinstance(element, ir.IntegerType)
    number = arith.constant(element, border if is_integer else float(border))
    op = tensor.PadOp(kind, value, [], [], pad.low, pad.high)
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(pad.low))
    with ir.InsertionPoint(block):
        tensor.YieldOp(number)
    return op.result


def contraction(op: Structured, factors: Sequence[ir.Value], total: ir.Type) -> ir.Value:
    """Emit a contraction of quantized factors, and return its result of element type ``total``.

    ``op`` is the f32 contraction that is replaced. ``total`` is the type in which products are
    summed; it is wider than the factors' element type.
    """
    is_integer = isinstance(total, ir.IntegerType)
    shape = shape_of(op.op.operation.results[0])
    out = full(shape, arith.constant(total, 0 if is_integer else 0.0))
    widen, multiply, add = (
        (arith.extsi, arith.muli, arith.addi) if is_integer
        else (arith.extf, arith.mulf, arith.addf)
    )  # fmt: skip

    def body(elements: Sequence[ir.Value]) -> ir.Value:
        product = multiply(widen(total, elements[0]), widen(total, elements[1]))
        return add(elements[2], product)

    return filled(generic(factors, out, op.maps, op.parallel), body)

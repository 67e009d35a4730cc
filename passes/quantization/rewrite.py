"""Quantizes a region's contractions to 8 or 16 bits, and computes everything else in f32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.ir.elementwise import Operand, elementwise, scalar, single, whole
from rammer_mlir.passes.ir.structured import plain_dim, shape_of
from rammer_mlir.passes.quantization import elements
from rammer_mlir.passes.quantization.affine import (
    HIGHEST,
    LOWEST,
    TINIEST,
    Affine,
    QuantizedWeight,
    affine_of,
    quantize_weight,
)
from rammer_mlir.passes.quantization.contractions import Contraction, Factor, contractions_of
from rammer_mlir.passes.quantization.elements import DynamicAffine, Types
from rammer_mlir.passes.quantization.ranges import Range

Array = NDArray[Any]

ReadWeight = Callable[[int], Array | None]
"""Maps the index of a region's input to its array if the input is a weight, else to None."""

FactorRanges = Sequence[Range | None]
"""The range of each factor of a contraction; None for a weight."""

_LARGEST_I32 = 2**31 - 1

_LARGEST_F16 = float(np.finfo(np.float16).max)
"""The largest finite f16; tensors with larger values are cast to bf16."""


@dataclass(frozen=True)
class Precision:
    """The precision of contractions.

    Attributes:
        bits: 8 for i8, 16 for f16 or bf16.
        is_dynamic: whether scales and zero points for i8 are computed from the data at run time.
    """

    bits: int
    is_dynamic: bool = False


@dataclass(frozen=True)
class Weight:
    """A constant that becomes an additional input of a rewritten region.

    ``value`` is the region's new block argument, ``array`` the elements of the constant.
    """

    value: ir.Value
    array: Array


@dataclass
class RegionRewrite:
    """The rewrite of a region's contractions to 8 or 16 bits.

    Attributes:
        block: the block of the region's function.
        precision: the precision of the contractions.
        weight: a function that maps the index of one of the region's inputs to its array if the
            input is a weight, else to None.
        ranges: for each contraction in order, the value ranges of its two factors.
        added: the constants that become additional inputs of the region.
    """

    block: ir.Block
    precision: Precision
    weight: ReadWeight
    ranges: Sequence[FactorRanges]
    added: list[Weight] = field(default_factory=list[Weight])
    _known: dict[tuple[ir.Value, bool], tuple[ir.Value, Affine | DynamicAffine]] = field(
        default_factory=dict["tuple[ir.Value, bool]", "tuple[ir.Value, Affine | DynamicAffine]"]
    )

    # Infinite scales make a region so inaccurate that it is refused: no warnings are due.
    @np.errstate(over="ignore", invalid="ignore")
    def run(self) -> None:
        """Replace all contractions of the region, and erase the operations that become unused."""
        for ranges in self.ranges:
            # Match again: the results of earlier contractions have been replaced.
            contraction = next(contractions_of(self.block))
            op = contraction.op.op.operation
            with ir.InsertionPoint(op), op.location:
                if self.precision.bits == 8:
                    found = self._in_8_bits(contraction, ranges)
                else:
                    found = self._in_16_bits(contraction, ranges)
            contraction.result.replace_all_uses_with(found)
            _erase_unused(op)

    def _with_constants(
        self, contraction: Contraction, ranges: FactorRanges, weight: int | None
    ) -> FactorRanges:
        """Return ``ranges``, with the missing ranges of constant factors computed.

        A missing range (None) of the factor with index ``weight`` stays missing.
        """
        pairs = enumerate(zip(contraction.factors, ranges, strict=True))
        return [
            self._constant_range(factor) if found is None and number != weight else found
            for number, (factor, found) in pairs
        ]

    def _constant_range(self, factor: Factor) -> Range | None:
        """Return the range, extended to 0, of a factor whose source is a constant; else None."""
        array = None if factor.argument is None else self.weight(factor.argument)
        if array is None:
            return None
        return Range(float(np.min(array, initial=0)), float(np.max(array, initial=0)))

    def _in_8_bits(self, contraction: Contraction, ranges: FactorRanges) -> ir.Value:
        weights = weight_of(contraction, self.weight)
        if weights is None:
            pairs = zip(contraction.factors, ranges, strict=True)
            # Zero points of 0 save the corrections by the sums of both activations.
            parts = [self._activation(f, found, is_symmetric=True) for f, found in pairs]
            total = elements.contraction(contraction.op, [p.value for p in parts], Types().i32)
            return self._product_scaled(total, [part.affine for part in parts])
        number, array = weights
        channels = contraction.channels(number)
        weight = quantize_weight(array, channels)
        other = 1 - number
        data = self._activation(contraction.factors[other], ranges[other], is_symmetric=False)
        factors = [data.value, self._add(weight.values)]
        total = elements.contraction(
            contraction.op, factors if number == 1 else factors[::-1], Types().i32
        )
        return self._scaled(total, data.affine, weight, contraction.channel_map(number))

    def _activation(
        self, factor: Factor, found: Range | None, *, is_symmetric: bool
    ) -> _Activation:
        """Emit the quantization of a factor to i8; return its i8 tensor, scale and zero point.

        If the precision is dynamic, ``factor.operand`` is quantized, with a scale and a zero point
        that are computed at run time. Otherwise, ``factor.source`` is quantized, with a scale and a
        zero point that follow from ``found``, the factor's value range; the pads and reshapes that
        make the operand from the source are then applied to the i8 tensor. Factors with the same
        source share the quantized source. If ``is_symmetric``, the zero point is 0.
        """
        if self.precision.is_dynamic:
            value, made = self._by_data(factor.operand, is_symmetric=is_symmetric)
            return _Activation(value, made)
        key = factor.source, is_symmetric
        if key not in self._known:
            found = self._constant_range(factor) if found is None else found
            assert found is not None, "a constant, or a tensor that was observed"
            affine = affine_of(found, is_symmetric=is_symmetric)
            numbers = np.float32(affine.scale), np.int8(affine.zero)
            scale, zero = (scalar(self._add(number)) for number in numbers)
            self._known[key] = elements.quantized(factor.source, scale, zero), affine
        value, known = self._known[key]
        assert isinstance(known, Affine)
        return _Activation(elements.viewed(value, factor.views, known.zero), known)

    def _by_data(self, operand: ir.Value, *, is_symmetric: bool) -> tuple[ir.Value, DynamicAffine]:
        key = operand, is_symmetric
        if key not in self._known:
            made = elements.range_of_data(operand, TINIEST, is_symmetric=is_symmetric)
            quantized = elements.quantized(operand, single(made.scale), single(made.zero))
            self._known[key] = quantized, made
        value, found = self._known[key]
        assert isinstance(found, DynamicAffine)
        return value, found

    def _scaled(
        self,
        total: ir.Value,
        data: Affine | DynamicAffine,
        weight: QuantizedWeight,
        dims: Sequence[int],
    ) -> ir.Value:
        """Emit and return the f32 result of an integer contraction of an activation and a weight.

        The result is ``(total - zero * sums) * scale * scales``, with the activation's ``zero`` and
        ``scale``.

        Args:
            total: the i32 result of the integer contraction.
            data: ``scale`` and ``zero`` of the activation.
            weight: the weight, with its ``scales`` and ``sums``, one per channel.
            dims: the dimension of the result for each channel dimension of the weight.
        """
        if isinstance(data, DynamicAffine):
            operands = [
                whole(total), Operand(self._add(weight.sums), dims), single(data.zero),
                single(data.scale), Operand(self._add(weight.scales), dims),
            ]  # fmt: skip
            return elementwise(operands, shape_of(total), Types().f32, _dequantize_by_data)
        scales = (weight.scales * np.float32(data.scale)).astype(np.float32)
        # No special case for a zero point of 0, so that all layers share a function.
        moved = (weight.sums.astype(np.int64) * data.zero).astype(np.int32)
        operands = [whole(total), *(Operand(self._add(each), dims) for each in (scales, moved))]
        return elementwise(operands, shape_of(total), Types().f32, _dequantize)

    def _in_16_bits(self, contraction: Contraction, ranges: FactorRanges) -> ir.Value:
        weights = weight_of(contraction, self.weight)
        ranges = self._with_constants(contraction, ranges, None if weights is None else weights[0])
        kind = _half(ranges, None if weights is None else weights[1])
        factors: list[ir.Value] = []
        for number, factor in enumerate(contraction.factors):
            # NumPy has no bf16: cast such weights at run time.
            if weights is not None and weights[0] == number and isinstance(kind, ir.F16Type):
                factors.append(self._add(weights[1].astype(np.float16)))
            else:
                value = elements.cast(factor.source, kind)
                factors.append(elements.viewed(value, factor.views, 0))
        return elements.contraction(contraction.op, factors, Types().f32)

    def _product_scaled(
        self, total: ir.Value, affines: Sequence[Affine | DynamicAffine]
    ) -> ir.Value:
        """Emit and return the f32 result of an integer contraction of two activations.

        ``total`` is the i32 result of this contraction, and is multiplied by the scales of both
        activations, ``affines``. Both zero points are 0.
        """
        shape, f32 = shape_of(total), Types().f32
        known = [a.scale for a in affines if isinstance(a, Affine)]
        if len(known) == len(affines):
            scale = self._add(np.float32(np.prod(known)))
            return elementwise([whole(total), scalar(scale)], shape, f32, _dequantize)
        scales = [single(a.scale) for a in affines if isinstance(a, DynamicAffine)]
        return elementwise(
            [whole(total), *scales], shape, f32,
            lambda values: arith.mulf(
                arith.sitofp(f32, values[0]), arith.mulf(values[1], values[2])
            ),
        )  # fmt: skip

    def _add(self, constant: Array | np.generic) -> ir.Value:
        """Add a constant as an input of the region, and return the block's new argument."""
        array = np.asarray(constant)
        kind = ir.RankedTensorType.get(list(array.shape), _element_type(array))
        value = self.block.add_argument(kind, ir.Location.unknown())
        self.added.append(Weight(value, array))
        return value


def may_overflow(terms: int, ranges: FactorRanges) -> bool:
    """Whether a sum of ``terms`` products of a contraction in 8 bits may exceed i32.

    ``ranges`` are the ranges of the contraction's factors. The data that multiply a weight have a
    zero point, which is subtracted from them; two activations have none.
    """
    has_weight = None in ranges
    largest = (HIGHEST - LOWEST) * HIGHEST if has_weight else LOWEST * LOWEST
    return terms * largest > _LARGEST_I32


def _half(ranges: FactorRanges, weight: Array | None) -> ir.Type:
    """Return the 16-bit type to which both factors of a contraction are cast, f16 or bf16.

    The type is bf16 if a factor has values beyond the largest finite f16. ``ranges`` are the
    factors' value ranges; ``weight`` has the elements of a factor that is a weight.
    """
    largest = 0.0 if weight is None else float(np.abs(weight).max(initial=0.0))
    for found in ranges:
        if found is not None:
            largest = max(largest, -found.low, found.high)
    return ir.F16Type.get() if largest <= _LARGEST_F16 else ir.BF16Type.get()


@dataclass(frozen=True)
class _Activation:
    """An activation that a contraction multiplies, as an i8 tensor with a scale and zero point."""

    value: ir.Value
    affine: Affine | DynamicAffine


def weight_of(contraction: Contraction, weight: ReadWeight) -> tuple[int, Array] | None:
    """Return the index, 0 or 1, of the factor that is a weight, and the weight's elements.

    The array has the factor's shape. A padded weight does not count as a weight. Return None if
    neither or both factors are weights, or if an index expression of the weight is not a single
    loop. ``weight`` maps the index of a region's input to its array, or to None if the input is no
    weight.
    """
    found = [
        (number, array)
        for number, factor in enumerate(contraction.factors)
        if (array := _weight_of(factor, weight)) is not None
    ]
    if len(found) != 1:
        return None
    number, array = found[0]
    is_plain = all(plain_dim(expr) is not None for expr in contraction.op.maps[number].results)
    return (number, array) if is_plain else None


def _weight_of(factor: Factor, weight: ReadWeight) -> Array | None:
    is_padded = any(view.name == "tensor.pad" for view in factor.views)
    if factor.argument is None or is_padded:
        return None
    array = weight(factor.argument)
    return None if array is None else np.asarray(array).reshape(shape_of(factor.operand))


def _dequantize(values: Sequence[ir.Value]) -> ir.Value:
    total, scale, *moved, _ = values
    for each in moved:
        total = arith.subi(total, each)
    return arith.mulf(arith.sitofp(Types().f32, total), scale)


def _dequantize_by_data(values: Sequence[ir.Value]) -> ir.Value:
    total, sums, zero, scale, scales, _ = values
    types = Types()
    moved = arith.muli(sums, arith.fptosi(types.i32, zero))
    exact = arith.sitofp(types.f32, arith.subi(total, moved))
    return arith.mulf(exact, arith.mulf(scales, scale))


def _element_type(array: Array) -> ir.Type:
    if array.dtype.kind == "f":
        return Types().f32 if array.dtype == np.float32 else ir.F16Type.get()
    return ir.IntegerType.get_signless(8 * array.dtype.itemsize)


def _erase_unused(op: ir.Operation) -> None:
    """Erase an unused operation, and then the producers of its operands that become unused."""
    if any(True for result in op.results for _ in result.uses):
        return
    operands = list(op.operands)
    op.erase()
    for operand in dict.fromkeys(operands):
        owner = operand.owner
        if not isinstance(owner, ir.Block) and owner.name.partition(".")[0] in ("tensor", "linalg"):
            _erase_unused(owner.operation)

"""Matches contractions of 8-bit integers minus their zero points, as in ONNX's MatMulInteger."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.byte_product import EXTENSIONS, defined_by, extensions_of
from rammer_mlir.passes.contractions.contraction import multiplies_and_adds
from rammer_mlir.passes.ir.constant_pad import PAD, find_constant_pad
from rammer_mlir.passes.ir.fills import starts_at_zero
from rammer_mlir.passes.ir.reshapes import RESHAPES, reassociation
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.ir.traversal import constant_integer


@dataclass(frozen=True)
class Zero:
    """A zero point that is subtracted from each element of a factor.

    Attributes:
        value: a tensor of i8, which is broadcast to the factor.
        dims: for each dimension of ``value``, the index of the corresponding dimension of the
            factor.
        is_unsigned: whether the elements of ``value`` are unsigned.
    """

    value: ir.Value
    dims: tuple[int, ...]
    is_unsigned: bool

    @property
    def number(self) -> int | None:
        """The 8 bits of the zero point read as a signed integer, -128 to 127.

        None if the zero point is not constant, or differs between elements.
        """
        constant = defined_by(self.value, "arith.constant")
        if constant is None:
            return None
        attribute = constant.attributes["value"]
        if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
            return None
        number = ir.IntegerAttr(attribute.get_splat_value()).value
        return number - 256 if number > 127 else number


@dataclass(frozen=True)
class Scale:
    """A scale that multiplies each element of a factor.

    Attributes:
        value: a tensor of f32, which is broadcast to the factor.
        dims: for each dimension of ``value``, the index of the corresponding dimension of the
            factor.
    """

    value: ir.Value
    dims: tuple[int, ...]


@dataclass(frozen=True)
class ByteFactor:
    """A factor of a contraction: a tensor of i8 minus its zero point, optionally scaled to f32.

    Attributes:
        value: the tensor of i8.
        views: the reshapes and zero paddings, in order, that are applied to the difference (or
            scaled difference) and give the factor.
        is_unsigned: whether the elements of ``value`` are unsigned.
        zero: the zero point; None if it is 0.
        scale: the scale; None if the factor consists of integers.
    """

    value: ir.Value
    views: tuple[ir.Operation, ...]
    is_unsigned: bool
    zero: Zero | None = None
    scale: Scale | None = None

    @property
    def is_padded(self) -> bool:
        """Whether ``views`` contains a padding with zeros.

        The padding's zeros are differences, from which the zero point is already subtracted. They
        correspond to a padding of ``value`` with its zero point.
        """
        return any(view.name == PAD for view in self.views)


@dataclass(frozen=True)
class ByteDifferences:
    """A contraction of 8-bit integers minus their zero points, with a weight as the right factor.

    Attributes:
        op: the contraction, of i32, or of f32 if both factors have scales.
        left, right: the operand indices of the data and of the weight: 0 and 1, or 1 and 0.
        factors: the two factors, in the order of the operands.
    """

    op: Structured
    left: int
    right: int
    factors: tuple[ByteFactor, ByteFactor]


def find_byte_differences(op: Structured, weights: Container[ir.Value]) -> ByteDifferences | None:
    """Return the contraction of 8-bit integers minus zero points that an operation computes.

    Return None for any other operation. A factor may have no zero point. ``weights`` are the values
    known at compile time.
    """
    factors = _read_factors(op)
    if factors is None or op.result_dims(0) is None or not starts_at_zero(op):
        return None
    for left, right in ((0, 1), (1, 0)):
        is_weight = factors[right].value in weights and factors[left].value not in weights
        if is_weight and op.operand_dims(right) is not None and not factors[right].is_padded:
            return ByteDifferences(op, left, right, factors)
    return None


def _read_factors(op: Structured) -> tuple[ByteFactor, ByteFactor] | None:
    if (len(op.maps), op.num_outputs) != (3, 1) or op.is_elementwise:
        return None
    is_scaled = multiplies_and_adds(op.op)
    signs = (None, None) if is_scaled else extensions_of(op)
    if signs is None:
        return None
    first, second = (_read_factor(v, sign) for v, sign in zip(op.inputs, signs, strict=True))
    if first is None or second is None:
        return None
    has_scales = first.scale is not None, second.scale is not None
    return (first, second) if has_scales == (is_scaled, is_scaled) else None


def _read_factor(value: ir.Value, is_unsigned: bool | None) -> ByteFactor | None:
    """Return the factor, 8-bit integers minus a zero point, that is operand ``value``.

    If ``is_unsigned`` is None, an elementwise operation has to subtract the zero point, and the
    operand is its result, or is made from its result by reshapes and zero paddings; return None for
    any other operand. Otherwise, the operand is a tensor of i8 without a zero point, which the
    contraction's body extends to i32; ``is_unsigned`` tells whether its elements are unsigned.
    """
    if is_unsigned is not None:
        return ByteFactor(value, (), is_unsigned)
    views: list[ir.Operation] = []
    while not isinstance(value.owner, ir.Block) and _is_view(value.owner.operation):
        views.insert(0, value.owner.operation)
        value = value.owner.operands[0]
    if isinstance(value.owner, ir.Block) or not is_generic(value.owner.opview):
        return None
    return _read_difference(Structured(value.owner.opview), tuple(views))


def _is_view(operation: ir.Operation) -> bool:
    if operation.name in RESHAPES:
        return True
    pad = find_constant_pad(operation.opview)
    return pad is not None and (pad.is_zero or constant_integer(pad.border) == 0)


def _read_difference(op: Structured, views: tuple[ir.Operation, ...]) -> ByteFactor | None:
    """Return the factor of a contraction that the elementwise operation ``op`` computes.

    The operation subtracts a zero point from a tensor of i8 and may multiply the difference by a
    scale; the factor is its result after the reshapes and zero paddings ``views``. Return None if
    ``op`` computes something else.
    """
    body = _read_body(op)
    if body is None:
        return None
    whole = list(range(len(op.parallel)))
    if op.operand_dims(body.value) != whole or op.result_dims(0) != whole:
        return None
    dims: list[tuple[int, ...]] = []
    for number in (body.zero, body.scale):
        found = () if number is None else _dims_after(op.operand_dims(number), views)
        if found is None:
            return None
        dims.append(found)
    zero, scale = None, None
    if body.zero is not None:
        zero = Zero(op.inputs[body.zero], dims[0], body.zero_is_unsigned)
    if body.scale is not None:
        scale = Scale(op.inputs[body.scale], dims[1])
    if zero is not None and zero.number == 0:
        zero = None
    return ByteFactor(op.inputs[body.value], views, body.is_unsigned, zero, scale)


def _dims_after(
    dims: Sequence[int] | None, views: Sequence[ir.Operation]
) -> tuple[int, ...] | None:
    """Return the indices that the dimensions ``dims`` of a tensor have after reshapes and paddings.

    ``views`` are the reshapes and paddings, in order. Return None if ``dims`` is None, or if one of
    the dimensions is padded, split, or merged with another. Merging with a dimension of size 1, or
    splitting one off, is allowed.
    """
    found = dims
    for view in views:
        if found is None:
            return None
        found = _dims_after_view(found, view)
    return None if found is None else tuple(found)


def _dims_after_view(dims: Sequence[int], view: ir.Operation) -> Sequence[int] | None:
    pad = find_constant_pad(view.opview)
    if pad is not None:
        return None if any(pad.low[dim] or pad.high[dim] for dim in dims) else dims
    groups = reassociation(view)
    collapses = view.name == "tensor.collapse_shape"
    sizes = shape_of(view.operands[0] if collapses else view.results[0])
    found: list[int] = []
    for dim in dims:
        group = next(g for g in groups if dim in g) if collapses else groups[dim]
        large = [each for each in group if sizes[each] != 1] or group[:1]
        if len(large) != 1 or (collapses and large != [dim]):
            return None
        found.append(groups.index(group) if collapses else large[0])
    return found


@dataclass(frozen=True)
class _Body:
    """The computation ``(value - zero) * scale`` of an elementwise operation.

    Attributes:
        value, zero, scale: the indices of the operation's inputs that are the value, the zero point
            and the scale; None if the computation has no zero point or no scale.
        is_unsigned, zero_is_unsigned: whether the elements of ``value`` and ``zero`` are unsigned.
    """

    value: int
    is_unsigned: bool
    zero: int | None = None
    zero_is_unsigned: bool = False
    scale: int | None = None


def _read_body(op: Structured) -> _Body | None:
    """Return which inputs of ``op`` are the 8-bit value, its zero point and its scale.

    ``op`` has to be an elementwise operation that subtracts a zero point from 8-bit integers, in
    i32, and may multiply the difference by a scale, in f32. The zero point may be absent. Return
    None for any other operation.
    """
    if not op.is_elementwise or op.num_outputs != 1:
        return None
    given, scale, operations = op.yielded[0], None, 0
    product = defined_by(given, "arith.mulf")
    if product is not None:
        scales = [value for value in product.operands if value in op.arguments]
        converted = [d for v in product.operands if (d := defined_by(v, "arith.sitofp"))]
        if len(scales) != 1 or len(converted) != 1 or str(given.type) != "f32":
            return None
        scale, given, operations = _number(scales[0]), converted[0].operands[0], 2
    difference = defined_by(given, "arith.subi")
    extended = [given] if difference is None else list(difference.operands)
    operations += 2 * len(extended) - 1
    signs = [_extension(op, value) for value in extended]
    if str(given.type) != "i32" or len(op.body) != operations or None in signs:
        return None
    (value, sign), *zeros = [sign for sign in signs if sign is not None]
    if not zeros:
        return _Body(value, sign, scale=scale)
    return _Body(value, sign, *zeros[0], scale=scale)


def _extension(op: Structured, value: ir.Value) -> tuple[int, bool] | None:
    """Return the index of the i8 input that ``value`` extends, and whether the input is unsigned.

    Return None if ``value`` is no extension of an i8 input of ``op``.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in EXTENSIONS:
        return None
    source = owner.operands[0]
    if source not in op.arguments or str(source.type) != "i8":
        return None
    return _number(source), EXTENSIONS[owner.name]


def _number(argument: ir.Value) -> int:
    return ir.BlockArgument(argument).arg_number

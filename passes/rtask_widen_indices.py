"""`rtask-widen-indices`: computes indices that may exceed 32 bits as i64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.base import Form, OperationError, Pass
from rammer_mlir.passes.ir.integer_ranges import IntegerRanges
from rammer_mlir.passes.ir.traversal import nested_operations

_NARROW, _WIDE = 32, 64


@dataclass(frozen=True)
class WidenIndices(Pass):
    """Compute indices in bodies as i64 where they may exceed 32 bits.

    GPU kernels have indices of 32 bits if their buffers are small, as the compiler's own indices
    then fit. Arithmetic that a model writes on indices, such as a hash of ``linalg.index`` or a
    start index from a tensor before its clamp, may need 64 bits. An operation of the dialect
    `arith` is computed as i64 if the range of an operand or of the result exceeds 32 bits; ranges
    follow from constants, the extents of loops and the element types of tensors.
    """

    name: ClassVar[str] = "rtask-widen-indices"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Replace the operations of `arith` on indices that may exceed 32 bits."""
        ranges = IntegerRanges()
        replaced: list[ir.Operation] = []
        for operation in nested_operations(module.operation):
            if operation.name.startswith("affine."):
                _check_affine(operation, ranges)
            elif operation.name.startswith("arith.") and may_exceed(operation, ranges):
                replaced.append(operation)
        wide: dict[ir.Value, ir.Value] = {}
        for operation in replaced:
            _replace(operation, wide)
        for operation in reversed(replaced):
            operation.erase()


def _check_affine(operation: ir.Operation, ranges: IntegerRanges) -> None:
    """Check that the operands and results of an affine operation do not exceed 32 bits.

    Raises:
        OperationError: if one may.
    """
    if not all(ranges.fits(value, _NARROW) for value in _indices(operation)):
        raise OperationError(
            operation, f"expected operands and results of '{operation.name}' below 2^31, found one "
            "that may exceed it; run lower-affine first"
        )  # fmt: skip


def _indices(operation: ir.Operation) -> list[ir.Value]:
    values = [*operation.operands, *operation.results]
    return [value for value in values if isinstance(value.type, ir.IndexType)]


_UNSIGNED = frozenset(
    f"arith.{name}" for name in ("remui", "divui", "ceildivui", "shrui", "index_castui")
)
"""Operations whose result for a negative operand depends on the number of bits."""


def may_exceed(operation: ir.Operation, ranges: IntegerRanges) -> bool:
    """Return whether an operation on indices needs more than 32 bits.

    It does if the range of an index operand or result may exceed 32 bits, or if it is unsigned and
    an operand may be negative.
    """
    is_unsigned = operation.name in _UNSIGNED
    return not all(
        ranges.fits(value, _NARROW, allow_negative=not is_unsigned) for value in _indices(operation)
    )


def _replace(operation: ir.Operation, wide: dict[ir.Value, ir.Value]) -> None:
    """Emit ``operation`` on i64, and let the readers of its result read the new result.

    ``wide`` maps indices to equal values of type i64. The result is added to it, if it is an index.
    """
    if len(operation.results) != 1:
        raise OperationError(
            operation, "expected an operation with one result on indices that may exceed 32 bits, "
            f"found '{operation.name}'; compute with i64"
        )  # fmt: skip
    result = operation.results[0]
    with ir.InsertionPoint(operation), operation.location:
        new = _computed(operation, [_widened(operand, wide) for operand in operation.operands])
        if isinstance(result.type, ir.IndexType):
            narrow = arith.index_cast(result.type, new)
            wide[narrow] = new
            new = narrow
    result.replace_all_uses_with(new)


def _widened(operand: ir.Value, wide: dict[ir.Value, ir.Value]) -> ir.Value:
    if not isinstance(operand.type, ir.IndexType):
        return operand
    return wide[operand] if operand in wide else arith.index_cast(_i64(), operand)


def _computed(operation: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    kind = operation.results[0].type
    kind = _i64() if isinstance(kind, ir.IndexType) else kind
    if operation.name == "arith.constant":
        value = ir.IntegerAttr(operation.attributes["value"]).value
        return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, value)).result
    if operation.name in ("arith.index_cast", "arith.index_castui"):
        return _converted(operands[0], kind, is_signed=operation.name == "arith.index_cast")
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    return ir.Operation.create(operation.name, [kind], operands, attributes).result


def _converted(value: ir.Value, kind: ir.Type, *, is_signed: bool) -> ir.Value:
    """Emit a conversion of an integer to the integer type ``kind``."""
    before, after = ir.IntegerType(value.type).width, ir.IntegerType(kind).width
    if before == after:
        return value
    if before > after:
        return arith.trunci(kind, value)
    return arith.extsi(kind, value) if is_signed else arith.extui(kind, value)


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(_WIDE)

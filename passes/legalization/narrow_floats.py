"""Computes on floats of at most 8 bits in f32: widens the operands and rounds the results."""

from __future__ import annotations

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.passes.ir.conversions import convert
from rammer_mlir.passes.ir.element_types import NARROW_FLOATS, dtype_of, element_of
from rammer_mlir.passes.ir.scalar import DType, Scalar
from rammer_mlir.passes.ir.traversal import nested_operations, operations_named, replace
from rammer_mlir.passes.legalization.stored_types import storage_of

_CONVERSIONS = ("arith.extf", "arith.truncf")


def compute_in_f32(module: ir.Module) -> None:
    """Make each operation on floats of at most 8 bits compute in f32 and round its result."""
    names = sorted(
        {
            str(element_of(value.type))
            for op in nested_operations(module.operation)
            for value in (*op.operands, *op.results)
        }
        & NARROW_FLOATS.keys()
    )
    if not names:
        return
    passmanager.PassManager.parse(
        "builtin.module(arith-expand,math-extend-to-supported-types{extra-types=f16,bf16},"
        f"func.func(arith-emulate-unsupported-floats{{source-types={','.join(names)} "
        "target-type=f32}))"
    ).run(module.operation)
    for op in operations_named(module.operation, *_CONVERSIONS):
        if _is_narrow(op.results[0]) or _is_narrow(op.operands[0]):
            # Else folding would leave out the rounding between two operations.
            op.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<none>")


def _is_narrow(value: ir.Value) -> bool:
    return str(value.type) in NARROW_FLOATS


def expand_conversions(module: ir.Module) -> None:
    """Replace conversions from and to floats of at most 8 bits by arithmetic on their bits.

    A conversion from f64 rounds to f32 first, and then to the narrow type; ml_dtypes does the same.
    """
    for op in operations_named(module.operation, *_CONVERSIONS):
        source, result = op.operands[0], op.results[0]
        if _is_narrow(source) or _is_narrow(result):
            with ir.InsertionPoint(op), op.location:
                found = convert(_given(source), _dtype(result), saturate=False, rounding="nearest")
                replace(op, [_as_float(found, result.type)])


def _dtype(value: ir.Value) -> DType:
    found = dtype_of(value.type)
    assert found is not None
    return found


def _given(value: ir.Value) -> Scalar:
    """Return a ``Scalar``, an object whose Python operators emit arithmetic, for an SSA value.

    The ``Scalar`` of a float of at most 8 bits holds the float's bits as an i8.
    """
    storage = storage_of(value.type)
    return Scalar(value if storage is None else storage.store(value)[0], _dtype(value))


def _as_float(found: Scalar, kind: ir.Type) -> ir.Value:
    """Return the SSA value of type ``kind`` that a ``Scalar`` holds.

    If ``kind`` is a float of at most 8 bits, the ``Scalar`` holds the float's bits as an i8, which
    is converted to ``kind``.
    """
    storage = storage_of(kind)
    return found.value if storage is None else storage.load([found.value])

"""Finds the functions of rKernels, and compares their types with those of operands and results."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken


def find_function(op: ir.Operation, table: ir.SymbolTable, name: str) -> ir.Operation:
    """Return the ``func.func`` with the symbol ``name`` in a symbol table.

    Raises:
        Broken: at ``op``, if the table has no such symbol, or the symbol is not a ``func.func``.
    """
    found = table[name].operation if name in table else None
    if found is None or found.name != "func.func":
        got = "no such symbol" if found is None else f"a '{found.name}'"
        raise Broken(op, f"a function @{name}", got, "an rKernel is a func.func of the same module")
    return found


def signature(function: ir.Operation) -> tuple[list[ir.Type], list[ir.Type]]:
    """Return the input and result types of a function."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return list(kind.inputs), list(kind.results)


def is_kernel(function: ir.Operation) -> bool:
    """Whether a function is an rKernel: its first argument is the rTask's id, of type ``index``."""
    inputs, _ = signature(function)
    return bool(inputs) and isinstance(inputs[0], ir.IndexType)


def buffer_shape(kind: ir.Type) -> tuple[int, ...] | None:
    """Return the shape of a tensor or memref type of static shape; None for any other type."""
    if not isinstance(kind, ir.RankedTensorType | ir.MemRefType) or not kind.has_static_shape:
        return None
    return tuple(kind.shape)


def check_types(
    op: ir.Operation,
    got: Sequence[ir.Type],
    expected: Sequence[ir.Type],
    name: str,
    what: str = "operand",
) -> None:
    """Check that the types ``got`` equal ``expected``, apart from differences without an effect.

    The offsets of memrefs, and the strides of dimensions of size 1, may differ. ``name``, the
    function that has the expected types, and ``what``, the noun for the values of these types (such
    as "operand"), appear in the error's message.

    Raises:
        Broken: at ``op``, if the count of types or a type differs.
    """
    if len(got) != len(expected):
        raise Broken(
            op,
            f"{len(expected)} {what}s",
            len(got),
            f"the {what}s are those of @{name}",
        )
    for number, (one, other) in enumerate(zip(got, expected, strict=True)):
        if one != other and not _same_but_offset(one, other):
            raise Broken(
                op,
                f"{what} {number} of type {other}",
                one,
                f"the {what}s have the shapes, element types and strides of @{name}",
            )


def _same_but_offset(one: ir.Type, other: ir.Type) -> bool:
    """Whether two memref types differ at most in the offset and in strides of unit dimensions.

    Unit dimensions have size 1. The offset does not matter, because an rKernel gets a pointer to
    the memref's first element.
    """
    if not (isinstance(one, ir.MemRefType) and isinstance(other, ir.MemRefType)):
        return False
    if (list(one.shape), one.element_type, one.memory_space) != (
        list(other.shape),
        other.element_type,
        other.memory_space,
    ):
        return False
    return _strides(one) == _strides(other)


def _strides(kind: ir.MemRefType) -> list[int]:
    """Return the strides, in elements, of the dimensions whose size is not 1."""
    strides, _ = kind.get_strides_and_offset()
    return [stride for stride, size in zip(strides, kind.shape, strict=True) if size != 1]

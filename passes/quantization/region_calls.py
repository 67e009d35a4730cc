"""Finds the calls of regions in a program; clones regions' functions and changes their results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import func, ir
from rammer_mlir.passes.ir.entry import (
    CODEGEN,
    COMPOSITE,
    entry_block,
    functions,
    symbol_name,
)
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.inlining import inline_calls


@dataclass(frozen=True)
class RegionCall:
    """A call of a region in the entry function.

    Attributes:
        op: the call.
        function: the region's function.
        codegen: the name of the region's code generator.
    """

    op: ir.Operation
    function: ir.OpView
    codegen: str

    @property
    def region(self) -> str:
        """The name of the region's function."""
        return symbol_name(self.function)

    @property
    def title(self) -> str:
        """The names of the region and of the call's node in the model, for messages."""
        location = self.op.location
        node = f" ({location.name_str})" if isinstance(location, ir.NameLoc) else ""
        return f"region '{self.region}'{node}"


def region_calls(module: ir.Module, codegens: Collection[str]) -> list[RegionCall]:
    """Return the calls of regions whose code generator is in ``codegens``, in program order."""
    regions = {
        symbol_name(each): each
        for each in functions(module)
        if CODEGEN in each.operation.attributes and _codegen(each) in codegens
    }
    found: list[RegionCall] = []
    for op in entry_block(module).operations:
        if op.operation.name == "func.call":
            callee = regions.get(ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value)
            if callee is not None:
                found.append(RegionCall(op.operation, callee, _codegen(callee)))
    return found


def _codegen(function: ir.OpView) -> str:
    return ir.StringAttr(function.operation.attributes[CODEGEN]).value


def body_of(function: ir.OpView) -> ir.Block:
    """Return a function's only block."""
    return function.operation.regions[0].blocks[0]


def inline_composites(module: ir.Module, function: ir.OpView) -> None:
    """Inline the calls of composites (matches of patterns) in the function of a region."""
    composites = {
        symbol_name(each): each
        for each in functions(module)
        if COMPOSITE in each.operation.attributes
    }
    inline_calls(body_of(function), composites)


UNNAMED = "quantized"
"""The temporary name of a new function, until it is given a unique name."""


def cloned_function(function: ir.OpView) -> ir.OpView:
    """Emit a clone of a function directly before it, with a temporary name; return the clone."""
    copy = function.operation.clone(ir.InsertionPoint(function))
    copy.attributes["sym_name"] = ir.StringAttr.get(UNNAMED)
    return copy.opview


def name_function(module: ir.Module, function: ir.OpView, name: str) -> None:
    """Rename a function to ``name``, or to a unique name that begins with ``name``."""
    function.operation.attributes["sym_name"] = ir.StringAttr.get(name)
    ir.SymbolTable(module.operation).insert(function.operation)


def return_more(function: ir.OpView, values: Sequence[ir.Value]) -> None:
    """Make a function return ``values`` in addition to its results, after them."""
    *_, end = body_of(function).operations
    _return(function, [*end.operation.operands, *values])
    attributes = function.operation.attributes
    if "res_attrs" in attributes:
        known = list(ir.ArrayAttr(attributes["res_attrs"]))
        attributes["res_attrs"] = ir.ArrayAttr.get([*known, *[ir.DictAttr.get({})] * len(values)])


def return_only(function: ir.OpView, values: Sequence[ir.Value]) -> None:
    """Make a function return only ``values``, instead of its old results."""
    _return(function, values)
    if "res_attrs" in function.operation.attributes:
        del function.operation.attributes["res_attrs"]


def _return(function: ir.OpView, values: Sequence[ir.Value]) -> None:
    *_, end = body_of(function).operations
    with ir.InsertionPoint(end), ir.Location.unknown():
        func.ReturnOp(list(values))
    end.operation.erase()
    update_function_type(function.operation, list(values))


def call_of(function: ir.OpView, operands: Sequence[ir.Value], place: ir.Operation) -> ir.Operation:
    """Emit a call of a function before operation ``place``, and return the call.

    The call gets the source location of ``place``.
    """
    *_, end = body_of(function).operations
    kinds = [value.type for value in end.operation.operands]
    with ir.InsertionPoint(place), place.location:
        return func.CallOp(kinds, symbol_name(function), list(operands)).operation

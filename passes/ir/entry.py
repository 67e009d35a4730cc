"""Finds a module's functions: the entry function, private functions and their callers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError

CODEGEN = "rtask.codegen"
"""Attribute of a region's private function: the name of the code generator."""

COMPOSITE = "rtask.composite"
"""Attribute of a composite's operations: the composite's name and the number of the match.

A composite is a match of a code generator's pattern. Once its operations are outlined, their
private function has the attribute, which is then only the name.
"""


def functions(module: ir.Module) -> Iterator[ir.OpView]:
    """Yield every ``func.func`` of the module."""
    for op in module.body.operations:
        if op.operation.name == "func.func":
            yield op


def symbol_name(function: ir.OpView) -> str:
    """Return the symbol name of a function."""
    return ir.StringAttr(function.operation.attributes["sym_name"]).value


def is_private(function: ir.OpView) -> bool:
    """Whether the function is private to the module, as rKernels are."""
    attributes = function.operation.attributes
    return "sym_visibility" in attributes and "private" in str(attributes["sym_visibility"])


def computations(module: ir.Module) -> Iterator[ir.OpView]:
    """Yield the private functions whose computations passes may rewrite.

    Functions of code generators' regions and composites are excluded, because a rewritten function
    would no longer match the pattern of its code generator.
    """
    for function in functions(module):
        attributes = function.operation.attributes
        if is_private(function) and CODEGEN not in attributes and COMPOSITE not in attributes:
            yield function


def entry_function(module: ir.Module) -> ir.OpView:
    """Return the module's only public function with a body.

    Raises:
        PassError: if there is no such function, or more than one.
    """
    public = [f for f in functions(module) if not is_private(f) and f.operation.regions[0].blocks]
    if len(public) != 1:
        names = ", ".join(symbol_name(f) for f in public)
        found = f"{len(public)} ({names}): mark helper functions private"
        raise PassError(
            "expected exactly one public function to compile, found "
            + (found if public else "none: give one a body and public visibility")
        )
    return public[0]


def entry_block(module: ir.Module) -> ir.Block:
    """Return the entry function's only block."""
    return entry_function(module).operation.regions[0].blocks[0]


def callers(module: ir.Module) -> Mapping[str, list[ir.Operation]]:
    """Return, for each name of a called function, the entry function's rOperators that call it.

    An rOperator with several alternative functions is in several lists.
    """
    found: dict[str, list[ir.Operation]] = {}
    for op in entry_block(module).operations:
        if op.operation.name == "rtask.operator":
            for kernel in ir.ArrayAttr(op.operation.attributes["kernels"]):
                found.setdefault(ir.FlatSymbolRefAttr(kernel).value, []).append(op.operation)
    return found

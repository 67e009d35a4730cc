"""Lowers arithmetic on complex numbers to arithmetic on real and imaginary parts."""

from __future__ import annotations

from rammer_mlir.bindings import arith, ir, passmanager
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.complex_functions import expand_complex_functions
from rammer_mlir.passes.legalization.front_ends import uses_dialect
from rammer_mlir.passes.legalization.stored_types import storage_of

_LOWERED = "builtin.module(canonicalize,convert-complex-to-standard,canonicalize,cse)"

_FOLDED = "builtin.module(canonicalize,cse)"


def lower_complex(module: ir.Module) -> None:
    """Lower operations on complex scalars to arithmetic on real and imaginary parts.

    Tensors and arguments of complex element types must have been replaced before, by the function
    ``store_elements``.
    """
    if not uses_dialect(module, "complex"):
        return
    _split_selections(module)
    expand_complex_functions(module)
    passmanager.PassManager.parse(_LOWERED).run(module.operation)
    if _split_selections(module):  # of the lowered powers
        passmanager.PassManager.parse(_FOLDED).run(module.operation)


def _split_selections(module: ir.Module) -> bool:
    """Replace each ``arith.select`` of complex scalars by two selects of real scalars.

    The two selects compute the real and the imaginary part. Return True if the module had such a
    select.
    """
    found = [
        op
        for op in operations_named(module.operation, "arith.select")
        if isinstance(op.results[0].type, ir.ComplexType)
    ]
    for op in found:
        with ir.InsertionPoint(op), op.location:
            replace(op, [_selected(*op.operands)])
    return bool(found)


def _selected(condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    storage = storage_of(yes.type)
    assert storage is not None
    pairs = zip(storage.store(yes), storage.store(no), strict=True)
    return storage.load([arith.select(condition, a, b) for a, b in pairs])

"""Emits guards: code that only some threads or loop iterations execute."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from rammer_mlir.bindings import arith, ir, scf
from rammer_mlir.lowering.kernels.affine import Index, as_value


@contextmanager
def when(condition: ir.Value | None) -> Generator[None]:
    """Emit the operations of the ``with`` block under an i1 condition, or always if it is None."""
    if condition is None:
        yield
        return
    choice = scf.IfOp(condition)
    with ir.InsertionPoint(choice.then_block):
        yield
        scf.YieldOp([])


def all_below(pairs: Iterable[tuple[Index, Index]]) -> ir.Value | None:
    """Emit an i1 that tells whether the index of each (index, bound) pair is below its bound.

    The comparison is unsigned. The result is None if there are no pairs.
    """
    result: ir.Value | None = None
    for index, bound in pairs:
        found = arith.cmpi(arith.CmpIPredicate.ult, as_value(index), as_value(bound))
        result = found if result is None else arith.andi(result, found)
    return result

"""Code that only some threads, or only some points of a loop, execute."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from rammer_mlir.bindings import arith, ir, scf
from rammer_mlir.lowering.kernels.affine import Index, as_value


@contextmanager
def when(condition: ir.Value | None) -> Generator[None]:
    """Emit what follows for the case that an i1 holds; for every case if it is None."""
    if condition is None:
        yield
        return
    choice = scf.IfOp(condition)
    with ir.InsertionPoint(choice.then_block):
        yield
        scf.YieldOp([])


def all_below(pairs: Iterable[tuple[Index, Index]]) -> ir.Value | None:
    """Emit whether each index is below its bound, unsigned; None if there are none."""
    result: ir.Value | None = None
    for index, bound in pairs:
        found = arith.cmpi(arith.CmpIPredicate.ult, as_value(index), as_value(bound))
        result = found if result is None else arith.andi(result, found)
    return result

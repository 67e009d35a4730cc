"""Guards: code that only some threads or loop iterations execute."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from rammer_mlir.bindings import arith, ir, scf
from rammer_mlir.lowering.kernels.affine import Index, as_value


@contextmanager
def when(condition: ir.Value | None) -> Generator[None]:
    """Emit the operations inside the context under an i1 condition, or unconditionally if None."""
    if condition is None:
        yield
        return
    choice = scf.IfOp(condition)
    with ir.InsertionPoint(choice.then_block):
        yield
        scf.YieldOp([])


def all_below(pairs: Iterable[tuple[Index, Index]]) -> ir.Value | None:
    """Emit an i1 that tells whether each pair's index is below its bound (unsigned).

    None if there are no pairs.
    """
    result: ir.Value | None = None
    for index, bound in pairs:
        found = arith.cmpi(arith.CmpIPredicate.ult, as_value(index), as_value(bound))
        result = found if result is None else arith.andi(result, found)
    return result

"""Emits loops within the body of an operation, whose trip counts depend on data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rammer_mlir.bindings import arith, ir, scf
from rammer_mlir.passes.ir.scalar import Scalar, index_value

Step = Callable[[Scalar, Sequence[Scalar]], Scalar]
"""Emits the next value of a loop, from the value so far and the index of each loop."""


def repeated(start: Scalar, counts: Sequence[Scalar], body: Step) -> Scalar:
    """Emit nested loops with a loop-carried value, and return its value after the last iteration.

    Args:
        start: the value before the first iteration.
        counts: number of iterations of each loop, outermost first.
        body: emits the next value, from the current value and the index of each loop.
    """

    def nest(value: ir.Value, outer: list[Scalar]) -> ir.Value:
        if len(outer) == len(counts):
            return body(Scalar(value, start.dtype), outer).value
        zero, one = (arith.ConstantOp(ir.IndexType.get(), bound).result for bound in (0, 1))
        loop = scf.ForOp(zero, counts[len(outer)].index(), one, [value])
        with ir.InsertionPoint(loop.body):
            inner = nest(loop.inner_iter_args[0], [*outer, index_value(loop.induction_variable)])
            scf.YieldOp([inner])
        return loop.results[0]

    return Scalar(nest(start.value, []), start.dtype)

"""Finds chains: a main operation, then element-wise operations, each on the previous result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.views import Dims
from rammer_mlir.passes.regions.patterns import Pattern, alternatives, op, wildcard
from rammer_mlir.passes.regions.reading import Operand, Reading


@dataclass(frozen=True)
class Step:
    """An element-wise operation in the chain after a main operation.

    Attributes:
        reading: description of the operation.
        other: the operand that is not the previous operation's result; None for a unary operation.
        places: for each dimension of ``other``, the dimension of the result that it matches; -1 for
            a dimension of size 1 that matches none.
        is_first: whether the previous operation's result is the first operand.
    """

    reading: Reading
    other: Operand | None = None
    places: Dims = ()
    is_first: bool = True


def steps_after(readings: Sequence[Reading]) -> tuple[Step, ...]:
    """Return a ``Step`` for each operation after the first, which is the main operation.

    Each operation must read the result of the previous operation.

    Raises:
        NotExpressibleError: if a later operation is not element-wise with one or two operands.
    """
    return tuple(_step(previous.output, reading) for previous, reading in pairwise(readings))


def _step(before: Operand, reading: Reading) -> Step:
    values = [operand.value for operand in reading.inputs]
    indexing = indexing_of(reading)
    if not 1 <= len(values) <= 2 or values.count(before.value) != 1:
        raise NotExpressibleError("a step of other operands")
    place = values.index(before.value)
    if indexing[place] != tuple(range(reading.output.rank)):
        raise NotExpressibleError("a step that changes the shape")
    if len(values) == 1:
        return Step(reading)
    return Step(reading, reading.inputs[1 - place], indexing[1 - place], place == 0)


def indexing_of(reading: Reading) -> tuple[Dims, ...]:
    """Return, for each dimension of each operand, the dimension of the result that it matches.

    For example, the result is ``((0, 1), (1,))`` for the sum of a matrix and a row. -1 stands for a
    dimension of size 1 that matches no dimension of the result.

    Raises:
        NotExpressibleError: if the operation is not element-wise.
    """
    if "indexing" not in reading.attributes:
        raise NotExpressibleError(reading.kind)
    return cast("tuple[Dims, ...]", reading.attributes["indexing"])


def with_steps(
    main: Pattern, unary: Sequence[str], binary: Sequence[str], most: int = 4
) -> Pattern:
    """Return a pattern of an operation and the longest chain of element-wise functions after it.

    Args:
        main: pattern of the first operation.
        unary: kinds of unary functions, such as ``relu``.
        binary: kinds of binary functions, whose second operand may be any tensor.
        most: maximum number of functions in the chain.
    """

    def step(value: Pattern) -> Pattern:
        return alternatives(op(tuple(unary), value), op(tuple(binary), value, wildcard()))

    for _ in range(most):
        main = main.optional(step)
    return main

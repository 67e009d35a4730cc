"""A main operation with element-wise operations after it, each on the result of the one before."""

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
    """An element-wise operation after a main one.

    Attributes:
        reading: of the operation.
        other: what it reads besides the result of the operation before, None for nothing.
        places: the dimensions of the result that those of ``other`` follow, -1 for a size of 1.
        is_first: whether the result of the operation before is the first operand.
    """

    reading: Reading
    other: Operand | None = None
    places: Dims = ()
    is_first: bool = True


def steps_behind(readings: Sequence[Reading]) -> tuple[Step, ...]:
    """Return all readings but the first, each of which computes on the one before, as steps.

    Raises:
        NotExpressibleError: if one of them is no function of one or two operands.
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
    """Return for each operand of an element-wise operation the dimensions that its own follow.

    Raises:
        NotExpressibleError: if the operation is none.
    """
    if "indexing" not in reading.attributes:
        raise NotExpressibleError(reading.kind)
    return cast("tuple[Dims, ...]", reading.attributes["indexing"])


def with_steps(
    main: Pattern, unary: Sequence[str], binary: Sequence[str], most: int = 4
) -> Pattern:
    """Match an operation with up to ``most`` functions of its result after it, as many as follow.

    Args:
        main: the operation.
        unary: kinds of functions of one operand.
        binary: kinds of functions of two operands.
        most: steps.
    """

    def step(value: Pattern) -> Pattern:
        return alternatives(op(tuple(unary), value), op(tuple(binary), value, wildcard()))

    for _ in range(most):
        main = main.optional(step)
    return main

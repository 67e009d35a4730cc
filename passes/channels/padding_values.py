"""Computes the numbers that the padding channels of tensors may contain.

A set of type ``Fills`` lists all numbers that may be in a tensor's padding channels, at most
``_MOST_FILLS``; an empty set means that the numbers are unknown. The numbers depend on constants
alone: a sum of products with zero weights is zero, and the bodies of later operations are evaluated
on known numbers (``body_values``). For float tensors the numbers have to be known and finite: a
later product multiplies them by zero weights, and infinity times zero is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.byte_product import multiplies_bytes
from rammer_mlir.passes.contractions.contraction import multiplies_and_adds
from rammer_mlir.passes.ir.body_values import evaluate_body
from rammer_mlir.passes.ir.constants import PARTS, ConstantArgument
from rammer_mlir.passes.ir.fills import filling
from rammer_mlir.passes.ir.structured import Structured, constant_value
from rammer_mlir.passes.ir.traversal import constant_integer

Fills = frozenset[float]
"""The numbers that padding channels may contain; empty if they are unknown."""

ZEROS: Fills = frozenset((0.0,))

_MOST_FILLS = 4
"""Maximum number of different values in a tensor's padding channels."""

_LARGEST = 1e30
"""Largest accepted magnitude, far below that of f32, so that sums of products stay finite."""


def held_fills(weight: ConstantArgument) -> Fills:
    """Return the set of distinct numbers among the elements of an f32 weight.

    The set is empty if the weight is not f32, if the IR does not contain the weight's elements, if
    the weight is computed from other weights, or if it has more than ``_MOST_FILLS`` distinct
    numbers.
    """
    # Parts add zeros and matrices compute new numbers; reshapes and transposes keep the numbers.
    held = None if PARTS in weight.attributes else weight.held
    if held is None or held.dtype != np.float32 or any(isinstance(s, tuple) for s in weight.steps):
        return frozenset()
    numbers = frozenset(map(float, np.unique(held)))
    return numbers if len(numbers) <= _MOST_FILLS else frozenset()


def result_fills(op: Structured, inputs: Sequence[Fills]) -> list[Fills] | None:
    """Return, for each result of an operation, the numbers that its padding channels may contain.

    ``inputs`` lists the possible numbers in the padding channels of each input; an empty set means
    that they are unknown. An integer result with unknown numbers gets an empty set. Return None if
    the numbers of a float result are unknown or not finite.
    """
    if _is_product_with_zeros(op, inputs):
        # The other factor is an image or a weight, which are finite, so that every product is zero.
        return [ZEROS] * op.num_outputs
    found = _reduced_fills(op, inputs) if all(inputs) else None
    if found is None and _computes_integers(op):
        return [frozenset()] * op.num_outputs
    return found


def _computes_integers(op: Structured) -> bool:
    """Whether all results are integers that are computed without divisions, which may trap."""
    kinds = (ir.RankedTensorType(value.type).element_type for value in op.outputs)
    names = [inner.operation.name for inner in op.body]
    divides = any(name.startswith(("arith.div", "arith.rem")) for name in names)
    return not divides and all(isinstance(kind, ir.IntegerType) for kind in kinds)


def sums_products(op: Structured) -> bool:
    """Whether an operation sums products of two floats, or of two 8-bit integers."""
    return multiplies_and_adds(op.op) or multiplies_bytes(op)


def _is_product_with_zeros(op: Structured, inputs: Sequence[Fills]) -> bool:
    """Whether an operation sums products that are all zero in the padding channels of its results.

    This is so if the padding channels of one input, the weight, are zero, and each sum starts at
    zero. ``inputs`` lists the numbers that the padding channels of each input may contain.
    """
    return (
        sums_products(op)
        and not op.captures
        and ZEROS in inputs
        and all(_initial_fills(op, number) == ZEROS for number in range(op.num_outputs))
    )


def _initial_fills(op: Structured, number: int) -> Fills | None:
    """Return the number that fills the initial tensor of result ``number``, as a set of one number.

    The set is ``ZEROS`` if the body does not read the initial tensor. Return None if the tensor is
    not filled with a known number.
    """
    if not op.reads_output(number):
        return ZEROS
    scalar = filling(op.outputs[number])
    known = None if scalar is None else _number(scalar)
    return None if known is None else frozenset((known,))


def _number(scalar: ir.Value) -> float | None:
    """Return the number of a constant; None for any other value."""
    known = constant_value(scalar)
    return constant_integer(scalar) if known is None else known


def _reduced_fills(op: Structured, inputs: Sequence[Fills]) -> list[Fills] | None:
    """Return the possible numbers of each result, by evaluating the body on all possible inputs.

    ``inputs`` lists the possible numbers of each input; the body is evaluated on every combination
    of these numbers. The results of a reduction become possible values of its accumulators, until
    no new number is found. Return None if the numbers of a result are unknown, not finite, or more
    than ``_MOST_FILLS``.
    """
    found: list[set[float]] = []
    for number in range(op.num_outputs):
        initial = _initial_fills(op, number)
        if initial is None:
            return None
        found.append(set(initial))
    results: list[set[float]] = [set() for _ in found]
    while True:
        before = [len(fills) for fills in results]
        for arguments in product(*inputs, *found):
            for number, value in enumerate(evaluate_body(op.op, arguments)):
                if value is None:
                    return None
                results[number].add(value)
        if any(len(fills) > _MOST_FILLS for fills in results):
            return None
        if [len(fills) for fills in results] == before:
            break
        if not op.is_elementwise:
            # A reduction feeds its results back as accumulators.
            found = [old | new for old, new in zip(found, results, strict=True)]
    if not _all_finite(value for fills in results for value in fills):
        return None
    return [frozenset(fills) for fills in results]


def _all_finite(numbers: Iterable[float]) -> bool:
    return all(math.isfinite(number) and abs(number) <= _LARGEST for number in numbers)

"""What the further channels of padded values hold: a few numbers, known at compile time.

They depend on constants alone: sums of products with weights of zeros are zeros, and what follows
is computed by its body (``body_values``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from rammer_mlir.passes.contractions.contraction import multiplies_and_adds
from rammer_mlir.passes.ir.body_values import evaluate_body
from rammer_mlir.passes.ir.constants import PARTS, ConstantArgument
from rammer_mlir.passes.ir.fills import filling
from rammer_mlir.passes.ir.structured import Structured, constant_value

Fills = frozenset[float]
"""The numbers that may stand in further channels."""

ZEROS: Fills = frozenset((0.0,))

_MOST_FILLS = 4
"""Different numbers that further channels of one value may hold."""

_LARGEST = 1e30
"""Numbers up to here stay finite in f32 when a few of them are multiplied by weights and added."""


def held_fills(weight: ConstantArgument) -> Fills:
    """Return the numbers that a weight consists of, if they are few and known; else nothing."""
    held = None if PARTS in weight.attributes else weight.held
    if held is None or held.dtype != np.float32 or any(isinstance(s, tuple) for s in weight.steps):
        return frozenset()
    numbers = frozenset(map(float, np.unique(held)))
    return numbers if len(numbers) <= _MOST_FILLS else frozenset()


def result_fills(op: Structured, inputs: Sequence[Fills]) -> list[Fills] | None:
    """Return what an operation's results hold there, None if that is not known or not finite.

    ``inputs`` are what its inputs hold there; empty where that is not known.
    """
    if _is_product_with_zeros(op, inputs):
        # Whatever the other factor is: it is an image or a weight, and those are finite.
        return [ZEROS] * op.num_outputs
    if any(not fills for fills in inputs):
        return None
    return _reduced_fills(op, inputs)


def _is_product_with_zeros(op: Structured, inputs: Sequence[Fills]) -> bool:
    """Whether only zeros are added up: the weights of further output channels."""
    return (
        multiplies_and_adds(op.op)
        and not op.captures
        and ZEROS in inputs
        and all(_initial_fills(op, number) == ZEROS for number in range(op.num_outputs))
    )


def _initial_fills(op: Structured, number: int) -> Fills | None:
    """Return what a result is filled with before; any number where it is not read."""
    if not op.reads_output(number):
        return ZEROS
    scalar = filling(op.outputs[number])
    known = None if scalar is None else constant_value(scalar)
    return None if known is None else frozenset((known,))


def _reduced_fills(op: Structured, inputs: Sequence[Fills]) -> list[Fills] | None:
    """Evaluate the body until nothing new comes out of it."""
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
            found = [old | new for old, new in zip(found, results, strict=True)]
    if not _all_finite(value for fills in results for value in fills):
        return None
    return [frozenset(fills) for fills in results]


def _all_finite(numbers: Iterable[float]) -> bool:
    return all(math.isfinite(number) and abs(number) <= _LARGEST for number in numbers)

"""Reductions by several lanes for each result, combined in a tree of shuffles.

Where a tile has fewer results than the block has threads, a group of neighbouring lanes shares each
result: each lane reduces every n-th element into a register that began as the combiner's identity,
then the group exchanges partial results by butterflies, and one lane adds the initial value and
stores. The loop over results is uniform, because a shuffle needs all lanes of a warp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rammer_mlir.bindings import arith, gpu, ir

WIDTH = 32
"""Lanes that exchange values: a warp, and half of a wave of 64."""

_FLOAT_IDENTITIES = {
    "arith.addf": -0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": -math.inf,
    "arith.minimumf": math.inf,
}
_INTEGER_IDENTITIES = {
    "arith.addi": 0,
    "arith.muli": 1,
    "arith.maxsi": -(2**31),
    "arith.minsi": 2**31 - 1,
    "arith.andi": -1,
    "arith.ori": 0,
    "arith.xori": 0,
}


def choose_lanes(
    generic: Any, num_results: int | None, num_reduced: int | None, block_threads: int
) -> int:
    """Return how many lanes share a result: a power of two, 1 where one thread does it all.

    Args:
        generic: a ``linalg.generic`` with reductions.
        num_results: points of its parallel space; None if not static.
        num_reduced: points of its reduction space; None if not static.
        block_threads: threads of the block.
    """
    if num_results is None or num_reduced is None or combiners(generic) is None:
        return 1
    lanes = 1
    while lanes < WIDTH and 2 * lanes * num_results <= block_threads and 4 * lanes <= num_reduced:
        lanes *= 2
    return lanes


def combiners(generic: Any) -> list[Any] | None:
    """Return the operation that folds into each output, None if one has no known combiner.

    The accumulator must be used by it alone, and it must be what the body yields.
    """
    body = generic.regions[0].blocks[0]
    yielded = list(body.operations[len(body.operations) - 1].operands)
    first_output = len(body.arguments) - len(yielded)
    found: list[Any] = []
    for value, accumulator in zip(yielded, list(body.arguments)[first_output:], strict=True):
        uses = list(accumulator.uses)
        if isinstance(value.owner, ir.Block) or len(uses) != 1:
            return None
        combiner = value.owner.operation
        if uses[0].owner.operation != combiner or _identity(combiner) is None:
            return None
        if len(list(value.uses)) != 1:
            return None
        found.append(combiner)
    return found


def _identity(combiner: Any) -> Any:
    """Return the attribute of the combiner's identity on 32-bit types, else None."""
    kind = combiner.results[0].type
    if isinstance(kind, ir.F32Type) and combiner.name in _FLOAT_IDENTITIES:
        return ir.FloatAttr.get(kind, _FLOAT_IDENTITIES[combiner.name])
    if isinstance(kind, ir.IntegerType) and kind.width == 32:
        if combiner.name in _INTEGER_IDENTITIES:
            return ir.IntegerAttr.get(kind, _INTEGER_IDENTITIES[combiner.name])
    return None


def identities(found: Sequence[Any]) -> list[Any]:
    """Emit the values that partial results begin with."""
    return [arith.constant(c.results[0].type, _identity(c)) for c in found]


def combine(combiner: Any, left: Any, right: Any) -> Any:
    """Emit the combiner on two values."""
    copy = combiner.clone()
    copy.operation.operands[0], copy.operation.operands[1] = left, right
    return copy.operation.results[0]


def butterfly(combiner: Any, value: Any, lanes: int) -> Any:
    """Emit the exchange after which each lane of a group has the whole group's result."""
    distance = lanes // 2
    while distance:
        value = combine(combiner, value, exchange(value, distance))
        distance //= 2
    return value


def exchange(value: Any, distance: int) -> Any:
    """Emit the value of the lane whose number differs in one bit, ``distance``."""
    integer = ir.IntegerType.get_signless(32)
    width, offset = arith.constant(integer, WIDTH), arith.constant(integer, distance)
    return gpu.shuffle(value, offset, width, gpu.ShuffleMode.XOR)[0]

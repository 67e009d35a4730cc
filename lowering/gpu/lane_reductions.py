"""Emits reductions in which several lanes share a result, combined by a tree of shuffles.

If a tile has fewer results than the block has threads, a group of adjacent lanes shares each
result: each lane reduces every n-th element into a register that begins as the combiner's identity,
then the group combines partial results by butterfly shuffles, and one lane adds the initial value
and stores. The loop over results is uniform, because a shuffle needs all lanes of a warp.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, gpu, ir
from rammer_mlir.lowering.kernels.combiners import Combiner

WIDTH = 32
"""Number of lanes that exchange values: a warp, or half of a wave of 64."""

_FLOATS = (ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type)
_INTEGER_BITS = (8, 16, 32, 64)
_SHUFFLED_BITS = 32
"""Number of bits of a register; narrower values are widened for an exchange."""


def choose_lanes(
    combiners: Sequence[Combiner] | None,
    num_results: int | None,
    num_reduced: int | None,
    block_threads: int,
) -> int:
    """Return the number of lanes that share a result: a power of two, 1 without sharing.

    Args:
        combiners: the combiner of each output; None if a combiner is not known.
        num_results: number of points of the parallel loops; None if not static.
        num_reduced: number of points of the reduction loops; None if not static.
        block_threads: number of threads of the block.
    """
    if num_results is None or num_reduced is None or not can_exchange(combiners):
        return 1
    lanes = 1
    while lanes < WIDTH and 2 * lanes * num_results <= block_threads and 4 * lanes <= num_reduced:
        lanes *= 2
    return lanes


def can_exchange(combiners: Sequence[Combiner] | None) -> bool:
    """Return whether shuffles can combine the partial results of lanes for all outputs.

    That requires a known combiner for each output, and elements of a type that shuffles exchange.
    """
    return combiners is not None and all(has_exchange(c.element) for c in combiners)


def has_exchange(element: ir.Type) -> bool:
    """Return whether lanes can exchange values of type ``element`` by shuffles."""
    if isinstance(element, ir.IntegerType):
        return element.width in _INTEGER_BITS
    return isinstance(element, _FLOATS)


def butterfly(combiner: Combiner, value: ir.Value, lanes: int) -> ir.Value:
    """Emit a butterfly of shuffles that combines ``value`` over a group of ``lanes`` lanes.

    Every lane of the group gets the result.
    """
    distance = lanes // 2
    while distance:
        value = combiner.combine(value, exchange(value, distance))
        distance //= 2
    return value


def exchange(value: ir.Value, distance: int, width: int = WIDTH) -> ir.Value:
    """Emit a shuffle; return the value of the lane with index (own index xor ``distance``).

    ``width`` is the count of adjacent lanes that take part.
    """
    kind = value.type
    assert isinstance(kind, ir.IntegerType | ir.FloatType)
    if kind.width >= _SHUFFLED_BITS:  # the conversions of both targets split 64-bit shuffles
        return _shuffle(value, distance, width)
    bits, word = (ir.IntegerType.get_signless(n) for n in (kind.width, _SHUFFLED_BITS))
    narrow = value if isinstance(kind, ir.IntegerType) else arith.bitcast(bits, value)
    received = arith.trunci(bits, _shuffle(arith.extui(word, narrow), distance, width))
    return received if isinstance(kind, ir.IntegerType) else arith.bitcast(kind, received)


def _shuffle(value: ir.Value, distance: int, width: int) -> ir.Value:
    integer = ir.IntegerType.get_signless(32)
    lanes, offset = arith.constant(integer, width), arith.constant(integer, distance)
    return gpu.shuffle(value, offset, lanes, gpu.ShuffleMode.XOR)[0]

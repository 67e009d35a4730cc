"""Chooses the chains of rOperators whose computation in chunks lowers memory usage most.

Operations outside of a chain use only the results of the chain's last rOperator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.memory.chunked_chains import Chunk, ChunkedChain, ChunkedChains, first_used
from rammer_mlir.passes.memory.cut_functions import Parts
from rammer_mlir.passes.memory.operator_steps import OperatorSteps, Root
from rammer_mlir.scheduling.recomputation.operator_sequence import Step, Steps, Value

_REACH = 16
"""Maximum distance, in rOperators, from the memory peak to the last rOperator of a chain."""

_MOST_OPERATORS = 40
"""Maximum number of rOperators that are computed in chunks together."""

_NEARLY = 0.9
"""Minimum saving of memory of a chain that may be chosen, relative to the largest saving.

Of the chains with at least this saving, the chain that repeats the least work is chosen.
"""

_MOST_EXTRA = 1.0
"""Maximum work that the chunks of a chain may repeat, relative to the work without chunks."""


_POWER = 6
"""Exponent of the norm of memory usage over time; a high power weights peaks most."""


@dataclass(frozen=True)
class Found:
    """A chain of rOperators that may be computed in chunks, with its gain and cost.

    Attributes:
        chain: the rOperators, and their chunks.
        saved: the reduction of ``_height``, a measure of memory usage in which peaks weigh most.
        extra: the work that chunks repeat, divided by the work without chunks.
    """

    chain: ChunkedChain
    saved: float
    extra: float


def choose_chain(
    read: OperatorSteps, chains: ChunkedChains, count: int, limit: int
) -> ChunkedChain | None:
    """Return the chain to compute in chunks; None if no chain lowers the memory peak.

    Args:
        read: the rOperators of a block, with their costs and buffers.
        chains: finds the chains of the same block that can be computed in chunks.
        count: the number of chunks.
        limit: allowed bytes of buffers in use. An rOperator during which at most ``limit`` bytes
            are in use adds nothing to the measure of memory usage (``_height``).
    """
    live = read.steps.live_bytes
    before = _height(live, limit)
    peak = max(range(len(live)), key=live.__getitem__, default=0)
    found: list[Found] = []
    for chain in _around(read, chains, peak, count):
        extra = _extra_work(read, chain)
        in_chunks = _live_in_chunks(read, chain)
        saved = before - _height(in_chunks, limit)
        if extra <= _MOST_EXTRA and in_chunks[peak] < live[peak] and saved > 0:
            found.append(Found(chain, saved, extra))
    if not found:
        return None
    most = max(each.saved for each in found)
    return min(
        (each for each in found if each.saved >= _NEARLY * most),
        key=lambda each: (each.extra, -each.saved),
    ).chain


def _around(
    read: OperatorSteps, chains: ChunkedChains, peak: int, count: int
) -> Iterator[ChunkedChain]:
    for sink in read.operators[peak : peak + _REACH]:
        for axis, size in enumerate(shape_of(first_used(sink))):
            if size < 2:
                continue
            for chain in chains.ending_at(sink, axis, count):
                if len(chain.operators) > _MOST_OPERATORS:
                    break
                yield chain


def _extra_work(read: OperatorSteps, chain: ChunkedChain) -> float:
    """Return the work that the chunks of ``chain`` repeat, divided by the work without chunks."""
    cost = {op.operation: s.cost for op, s in zip(read.operators, read.steps.steps, strict=True)}
    own = added = 0.0
    for number, node in enumerate(chain.nodes):
        if node.operation in cost:
            share = sum(_share(node, chunk.parts[number]) for chunk in chain.chunks)
            own += cost[node.operation]
            added += cost[node.operation] * (share - 1)
    return added / max(own, 1.0)


def _share(node: ir.OpView, parts: Parts) -> float:
    """Return the fraction, from 0 to 1, of an operation's work that a chunk computes.

    ``parts`` lists the chunk's part of each result of ``node``. If the results have different
    fractions, the largest is returned.
    """
    return max(
        cut.size / shape_of(result)[cut.axis]
        for result, cut in zip(node.results, parts, strict=True)
        if cut is not None
    )


def _height(live: Sequence[int], limit: int) -> float:
    """Return a measure of memory usage in which peaks weigh most.

    ``live`` has the bytes in use at each step. The measure is the sum of the sixth powers of these
    numbers, in MiB, over the steps with more than ``limit`` bytes in use.
    """
    return sum((size / 2**20) ** _POWER for size in live if size > limit)


def _live_in_chunks(read: OperatorSteps, chain: ChunkedChain) -> list[int]:
    """Return the bytes in use at each rOperator of a block if ``chain`` is computed in chunks.

    An rOperator of the chain is executed once for each chunk; the returned number is the maximum
    over these executions.
    """
    steps, origins = _in_chunks(read, chain)
    most = [0] * len(read.operators)
    for origin, size in zip(origins, steps.live_bytes, strict=True):
        most[origin] = max(most[origin], size)
    return most


def _in_chunks(read: OperatorSteps, chain: ChunkedChain) -> tuple[Steps, list[int]]:
    """Return the executions of rOperators in order if ``chain`` is computed in chunks.

    Each execution is a step. The second result has, for each step, the index in ``read.operators``
    of the executed rOperator.
    """
    number = {op.operation: n for n, op in enumerate(read.operators)}
    inside = [number[op.operation] for op in chain.operators]
    sink = inside[-1]
    values = list(read.steps.values)
    made: list[Step] = []
    origins: list[int] = []
    for current, step in enumerate(read.steps.steps):
        if current == sink:
            for chunk in chain.chunks:
                parts = _parts(read, chain, chunk, values)
                for each in inside:
                    old = read.steps.steps[each]
                    writes = old.writes if each == sink else _renamed(old.writes, parts)
                    made.append(Step(_renamed(old.reads, parts), writes))
                    origins.append(each)
        elif current not in inside:
            made.append(step)
            origins.append(current)
    return Steps(tuple(made), tuple(values)), origins


def _renamed(numbers: Sequence[int], parts: dict[int, int]) -> tuple[int, ...]:
    return tuple(parts.get(n, n) for n in numbers)


def _parts(
    read: OperatorSteps, chain: ChunkedChain, chunk: Chunk, values: list[Value]
) -> dict[int, int]:
    """Append to ``values`` a buffer for the chunk's part of each intermediate of the chain.

    Return a map from the index of each intermediate's old buffer to the index of its new buffer.
    """
    numbers: dict[Root, int] = {root: n for n, root in enumerate(read.roots)}
    results = {read.root(result) for result in chain.nodes[0].results}
    found: dict[int, int] = {}
    for node, parts in zip(chain.nodes[1:], chunk.parts[1:], strict=True):
        for value, cut in zip(node.results, parts, strict=True):
            root = read.root(value)
            # Count each buffer once, at the value that owns it, not at views.
            if root == value and root in numbers and root not in results:
                old = values[numbers[root]]
                share = 0 if cut is None else old.num_bytes * cut.size // shape_of(value)[cut.axis]
                found[numbers[root]] = len(values)
                values.append(Value(share, old.is_counted))
    return found

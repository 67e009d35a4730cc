"""Chunks of a chain in turns: a chunk takes over the buffers of an earlier one.

Policies run any ready operator, and chunks are independent of one another: all chunks would begin
before one of them ends, and their intermediates would leave the caches between two operators. Here
the buffers of a chunk take over the memory of those of an earlier chunk, as under a memory limit
(``memory_limit``), so that a few chunks are in progress at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from rammer_mlir.scheduling.graph import TaskGraph

Chunk = tuple[int, int]
"""The number of a chain, and the number of a chunk in the order of execution."""


def in_turns(graph: TaskGraph, chunks: Mapping[int, Chunk], together: int) -> TaskGraph:
    """Return the graph with anti-dependencies between the chunks of each chain.

    Args:
        graph: the graph.
        chunks: the chunk of each operator that belongs to one, by the operator's number.
        together: the number of chunks of a chain that may be in progress at a time.
    """
    if not chunks:
        return graph
    buffers = list(graph.buffers)
    own = _own_buffers(graph, chunks)
    last = _last(graph, chunks, own)
    for (chain, number), begun in _begun(graph, chunks, own).items():
        # A chunk without an end of its own prepares operands of the following ones.
        places = range(number - together, -1, -1)
        earlier = next((last[chain, n] for n in places if (chain, n) in last), ())
        for buffer in begun if earlier else ():
            after = dict.fromkeys((*buffers[buffer].after, *earlier))
            buffers[buffer] = replace(buffers[buffer], after=tuple(after))
    return replace(graph, buffers=tuple(buffers))


def _last(
    graph: TaskGraph, chunks: Mapping[int, Chunk], own: Mapping[Chunk, tuple[int, ...]]
) -> dict[Chunk, tuple[int, ...]]:
    """Return the own buffers of each chunk that its last operator touches, if there are any."""
    ends = {chunk: number for number, chunk in chunks.items()}
    found: dict[Chunk, tuple[int, ...]] = {}
    for chunk, number in ends.items():
        touched = {view.buffer for view in graph.operators[number].operands}
        buffers = tuple(buffer for buffer in own.get(chunk, ()) if buffer in touched)
        if buffers:
            found[chunk] = buffers
    return found


def _own_buffers(graph: TaskGraph, chunks: Mapping[int, Chunk]) -> dict[Chunk, tuple[int, ...]]:
    """Return the intermediates that only operators of a single chunk touch, by chunk."""
    users: defaultdict[int, set[Chunk | None]] = defaultdict(set)
    for number, operator in enumerate(graph.operators):
        for view in operator.operands:
            users[view.buffer].add(chunks.get(number))
    found: defaultdict[Chunk, list[int]] = defaultdict(list)
    for buffer, touching in users.items():
        if len(touching) == 1 and graph.buffers[buffer].kind == "intermediate":
            (chunk,) = touching
            if chunk is not None:
                found[chunk].append(buffer)
    return {chunk: tuple(each) for chunk, each in found.items()}


def _begun(
    graph: TaskGraph, chunks: Mapping[int, Chunk], own: Mapping[Chunk, tuple[int, ...]]
) -> dict[Chunk, tuple[int, ...]]:
    """Return the own buffers of each chunk that are written before another of them is read.

    The operators that write the other ones depend on these.
    """
    written: defaultdict[Chunk, set[int]] = defaultdict(set)
    found: defaultdict[Chunk, list[int]] = defaultdict(list)
    for number, operator in enumerate(graph.operators):
        chunk = chunks.get(number)
        if chunk is None:
            continue
        touched = [view.buffer for view in operator.operands if view.buffer in own.get(chunk, ())]
        new = [buffer for buffer in touched if buffer not in written[chunk]]
        if len(new) == len(touched):
            found[chunk] += new
        written[chunk].update(new)
    return {chunk: tuple(each) for chunk, each in found.items()}

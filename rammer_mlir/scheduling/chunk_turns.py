"""Makes the chunks of a chain run in turns, so that their intermediates stay in caches.

A chain is a sequence of operators that is divided into independent chunks. Policies run any ready
operator. Without turns, all chunks would begin before one of them ends, and their intermediates
would be evicted from the caches between two operators. This module therefore lets the buffers of a
chunk take over the memory of an earlier chunk's buffers, as under a memory limit
(``memory_limit``), so that only a few chunks are in progress at a time. If the chunks of a chain
can be distributed evenly to the vEUs, each vEU computes whole chunks, and their intermediates stay
in its cache.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rammer_mlir.scheduling.graph import TaskGraph

Chunk = tuple[int, int]
"""The index of a chain, and the index of a chunk of this chain in the order of execution."""

_EVEN = 0.9
"""Least share of the vEUs' time that whole chunks have to occupy, if all chunks take equal time.

Otherwise all vEUs share each chunk, with barriers between its operators: on two vEUs, these and the
traffic between the caches take 5 to 15 % of an attention's time.
"""


def in_turns(
    graph: TaskGraph, chunks: Mapping[int, Chunk], num_veus: int, *, homes: bool
) -> TaskGraph:
    """Return the graph with dependencies and homes by which the chunks of a chain run in turns.

    The buffers of a chunk take over the memory of an earlier chunk (anti-dependencies), so that at
    most ``num_veus`` chunks of a chain are in progress at a time. If each vEU computes whole
    chunks, the home of an operator (``ROperator.home``) is the vEU that computes the operator's
    chunk.

    Args:
        graph: the graph.
        chunks: the chunk of each operator that belongs to a chunk, by the operator's number.
        num_veus: the number of vEUs of the device.
        homes: whether the policy places operators on their homes. If not, no homes are set, and all
            vEUs share each chunk.
    """
    if not chunks:
        return graph
    buffers, operators = list(graph.buffers), list(graph.operators)
    own = _own_buffers(graph, chunks)
    last = _last(graph, chunks, own)
    numbers: dict[int, list[int]] = {chain: [] for chain, _ in chunks.values()}
    for chain, number in sorted(last):
        numbers[chain].append(number)
    turns = {chain: _turns(ends, num_veus, homes=homes) for chain, ends in numbers.items()}
    for (chain, number), begun in _begun(graph, chunks, own).items():
        turn = turns[chain].of(number)
        if turn.after is not None:
            for buffer in begun:
                after = dict.fromkeys((*buffers[buffer].after, *last[chain, turn.after]))
                buffers[buffer] = replace(buffers[buffer], after=tuple(after))
    for operator, (chain, number) in chunks.items():
        operators[operator] = replace(operators[operator], home=turns[chain].of(number).home)
    return replace(graph, buffers=tuple(buffers), operators=tuple(operators))


@dataclass(frozen=True)
class _Turn:
    """The condition for the start of a chunk, and the vEU that computes the chunk.

    Attributes:
        after: the index of the chunk of the same chain that must end before this chunk starts;
            None if the chunk can start at any time.
        home: the vEU that computes the chunk; None if all vEUs share the chunk.
    """

    after: int | None
    home: int | None


@dataclass(frozen=True)
class _Turns:
    """The turns of the chunks of one chain: when each chunk may start, and on which vEU.

    ``ends`` has the indices, ascending, of the chunks whose last operator touches an intermediate
    that no other chunk touches; ``turns`` has the turn of each of these chunks.
    """

    ends: Sequence[int]
    turns: Sequence[_Turn]

    def of(self, number: int) -> _Turn:
        """Return the turn of chunk ``number``.

        A chunk that is not in ``ends`` prepares operands of the next chunk in ``ends``, and has the
        turn of that chunk. A chunk after the last chunk in ``ends`` may start at any time, and all
        vEUs share it.
        """
        place = bisect_left(self.ends, number)
        return self.turns[place] if place < len(self.ends) else _Turn(None, None)


def _turns(ends: Sequence[int], num_veus: int, *, homes: bool) -> _Turns:
    """Return the turns of a chain's chunks, for the chunks whose indices are in ``ends``.

    With ``homes`` and enough chunks for all vEUs, each vEU computes a range of consecutive chunks,
    because consecutive chunks share operands, such as the keys of an attention head. Otherwise all
    vEUs share each chunk. In both cases, at most ``num_veus`` chunks are in progress at a time.
    """
    share = -(-len(ends) // num_veus)
    at_home = homes and num_veus > 1 and len(ends) >= _EVEN * share * num_veus
    lanes = [place // share if at_home else place % num_veus for place in range(len(ends))]
    latest: dict[int, int] = {}
    found: list[_Turn] = []
    for number, lane in zip(ends, lanes, strict=True):
        found.append(_Turn(latest.get(lane), lane if at_home else None))
        latest[lane] = number
    return _Turns(ends, found)


def _last(
    graph: TaskGraph, chunks: Mapping[int, Chunk], own: Mapping[Chunk, tuple[int, ...]]
) -> dict[Chunk, tuple[int, ...]]:
    """Return, for each chunk, those of its own buffers that the chunk's last operator touches.

    The own buffers of a chunk are the intermediates that only operators of this chunk touch;
    ``own`` lists them. The last operator is the last in the order of the graph. A chunk is left out
    if its last operator touches none of its own buffers.
    """
    ends = {chunk: number for number, chunk in chunks.items()}
    found: dict[Chunk, tuple[int, ...]] = {}
    for chunk, number in ends.items():
        touched = {view.buffer for view in graph.operators[number].operands}
        buffers = tuple(buffer for buffer in own.get(chunk, ()) if buffer in touched)
        if buffers:
            found[chunk] = buffers
    return found


def _own_buffers(graph: TaskGraph, chunks: Mapping[int, Chunk]) -> dict[Chunk, tuple[int, ...]]:
    """Return, for each chunk, its own buffers: the intermediates that only its operators touch."""
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
    """Return, for each chunk, those of its own buffers that depend on no other own buffer.

    The own buffers of a chunk are the intermediates that only operators of this chunk touch, as
    listed in ``own``. A returned buffer is written by an operator that reads no own buffer of the
    chunk. All other own buffers are written by operators that depend on the writers of the returned
    buffers.
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

"""Contraction of nodes of a directed acyclic graph, with a topological order that is maintained.

Two nodes may become one if and only if no path through a third node connects them. The order bounds
the search for such a path, and a contraction renews only the part of the order between both nodes
(Pearce and Kelly, *A dynamic topological sort algorithm for directed acyclic graphs*, 2006).

Rules that keep, for each group, a set of the groups it depends on have to renew the sets of all
readers whenever a group grows; without that, two groups can come to wait for each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

Allowed = Callable[[int, int], bool]
"""Whether two nodes, given by their representatives, may become one for reasons besides cycles."""


class Quotient:
    """A graph of nodes, each of them one or several of the nodes that it began with.

    A node is named by its representative: the smallest of its members.
    """

    def __init__(self, sources: Sequence[Collection[int]]) -> None:
        """Begin with single nodes.

        Args:
            sources: the nodes that each node reads from, all of them with smaller numbers.
        """
        count = len(sources)
        self._sources = [set(found) for found in sources]
        self._readers: list[set[int]] = [set() for _ in range(count)]
        for node, found in enumerate(sources):
            for source in found:
                assert source < node, f"expected sources in front of node {node}, found {source}"
                self._readers[source].add(node)
        self._representative = list(range(count))
        self._members = [[node] for node in range(count)]
        self._slots: list[int | None] = list(range(count))
        self._rank = list(range(count))

    def find(self, node: int) -> int:
        """Return the representative of the node that a node is part of."""
        while self._representative[node] != node:
            self._representative[node] = self._representative[self._representative[node]]
            node = self._representative[node]
        return node

    def members(self, node: int) -> Sequence[int]:
        """Return the nodes that a node consists of, in ascending order."""
        return sorted(self._members[self.find(node)])

    def size(self, node: int) -> int:
        """Return how many nodes a node consists of."""
        return len(self._members[self.find(node)])

    def order(self) -> list[int]:
        """Return the representatives in a topological order."""
        return [node for node in self._slots if node is not None]

    def sources(self, node: int) -> list[int]:
        """Return the nodes that a node reads from, in ascending order."""
        return sorted(self._sources[self.find(node)])

    def readers(self, node: int) -> list[int]:
        """Return the nodes that read from a node, in ascending order."""
        return sorted(self._readers[self.find(node)])

    def may_merge(self, a: int, b: int) -> bool:
        """Whether two different nodes can become one without a cycle."""
        first, last = self._by_rank(a, b)
        return first != last and last not in self._reached(first, last)

    def merge(self, a: int, b: int) -> int:
        """Make one node of two that ``may_merge`` allows; return its representative."""
        first, last = self._by_rank(a, b)
        self._reorder(first, last)
        kept, dropped = min(first, last), max(first, last)
        for edges, opposite in ((self._sources, self._readers), (self._readers, self._sources)):
            for other in edges[dropped]:
                opposite[other].discard(dropped)
                opposite[other].add(kept)
            edges[kept] = (edges[kept] | edges[dropped]) - {kept, dropped}
            edges[dropped] = set()
        for edges in (self._sources, self._readers):
            edges[kept].discard(kept)
        self._representative[dropped] = kept
        large, small = sorted((self._members[kept], self._members[dropped]), key=len)[::-1]
        large.extend(small)
        self._members[kept], self._members[dropped] = large, []
        return kept

    def _by_rank(self, a: int, b: int) -> tuple[int, int]:
        x, y = self.find(a), self.find(b)
        return (x, y) if self._rank[x] <= self._rank[y] else (y, x)

    def _reached(self, first: int, last: int) -> set[int]:
        """Return what is reached from ``first`` not later than ``last``, by way of a third node."""
        limit = self._rank[last]
        pending = [node for node in self._readers[first] if node != last]
        seen: set[int] = set()
        while pending:
            node = pending.pop()
            if node in seen or self._rank[node] > limit:
                continue
            seen.add(node)
            pending.extend(self._readers[node])
        return seen

    def _reorder(self, first: int, last: int) -> None:
        """Put the merged node after what ``last`` may read, in front of what reads ``first``."""
        begin, end = self._rank[first], self._rank[last]
        reached = self._reached(first, last)
        assert last not in reached, "expected nodes that may be merged"
        between = [n for n in self._slots[begin + 1 : end] if n is not None]
        order = [
            *(node for node in between if node not in reached),
            min(first, last),
            *(node for node in between if node in reached),
        ]
        # After the free places: what is merged next is mostly after this node.
        free = end - begin + 1 - len(order)
        self._slots[begin : end + 1] = [*[None] * free, *order]
        for rank, node in enumerate(order, begin + free):
            self._rank[node] = rank


def merge_regions(
    graph: Quotient,
    labels: Sequence[str | None],
    allowed: Allowed = lambda a, b: True,
    *,
    siblings: bool = False,
) -> None:
    """Merge neighbours of equal labels until no two that are left may become one.

    Neighbours are nodes of which one reads from the other one; with ``siblings`` also those that
    read from one node, or that one node reads from. Producers come first.

    Args:
        graph: changed in place.
        labels: of each node; None for those that stay alone.
        allowed: a further condition.
        siblings: whether nodes with a common source or reader are neighbours.
    """
    changed = True
    while changed:
        changed = False
        for node in range(len(labels)):
            for a, b in list(_pairs(graph, node, siblings=siblings)):
                x, y = graph.find(a), graph.find(b)
                same = x != y and labels[x] is not None and labels[x] == labels[y]
                if same and allowed(x, y) and graph.may_merge(x, y):
                    graph.merge(x, y)
                    changed = True


def _pairs(graph: Quotient, node: int, *, siblings: bool) -> Iterator[tuple[int, int]]:
    """Yield the pairs of neighbours around a node; each is found from at least one node."""
    if graph.find(node) != node:
        return
    yield from ((source, node) for source in graph.sources(node))
    if siblings:
        yield from itertools.combinations(graph.readers(node), 2)
        yield from itertools.combinations(graph.sources(node), 2)

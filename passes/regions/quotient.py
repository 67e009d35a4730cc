"""Contracts nodes of a directed acyclic graph, and maintains its topological order.

Two nodes may be contracted if and only if no path through a third node connects them. The search
for such a path visits only nodes whose positions in the topological order are between those of the
two nodes, and a contraction changes no other positions (Pearce and Kelly, *A dynamic topological
sort algorithm for directed acyclic graphs*, 2006). A set of all direct and indirect sources per
node would answer the same question, but each contraction would have to update these sets in all
direct and indirect readers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

Allowed = Callable[[int, int], bool]
"""A condition on the contraction of two nodes, given by their representatives.

The condition need not test for cycles.
"""


class Quotient:
    """A directed acyclic graph in which nodes are contracted.

    A node is a set of original nodes, and is named by its representative: the smallest member.
    """

    def __init__(self, sources: Sequence[Collection[int]]) -> None:
        """Start with one node for each original node.

        Args:
            sources: for each original node, the nodes that it reads from, with smaller numbers.
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
        """Return the representative of the node that contains the original node ``node``."""
        while self._representative[node] != node:
            # Path halving keeps later searches short.
            self._representative[node] = self._representative[self._representative[node]]
            node = self._representative[node]
        return node

    def members(self, node: int) -> Sequence[int]:
        """Return the original nodes in a node, given by its representative, in ascending order."""
        return sorted(self._members[self.find(node)])

    def size(self, node: int) -> int:
        """Return the number of original nodes in a node."""
        return len(self._members[self.find(node)])

    def order(self) -> list[int]:
        """Return the representatives in topological order."""
        return [node for node in self._slots if node is not None]

    def sources(self, node: int) -> list[int]:
        """Return the nodes that a node reads from, in ascending order."""
        return sorted(self._sources[self.find(node)])

    def readers(self, node: int) -> list[int]:
        """Return the nodes that read from a node, in ascending order."""
        return sorted(self._readers[self.find(node)])

    def may_merge(self, a: int, b: int) -> bool:
        """Whether ``a`` and ``b`` are different nodes that can be contracted without a cycle."""
        first, last = self._by_rank(a, b)
        return first != last and last not in self._reached(first, last)

    def merge(self, a: int, b: int) -> int:
        """Contract the nodes ``a`` and ``b``, which ``may_merge`` allows.

        Return the representative of the new node.
        """
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
        # Extending the larger list bounds all merges together by O(n log n).
        large, small = sorted((self._members[kept], self._members[dropped]), key=len)[::-1]
        large.extend(small)
        self._members[kept], self._members[dropped] = large, []
        return kept

    def _by_rank(self, a: int, b: int) -> tuple[int, int]:
        x, y = self.find(a), self.find(b)
        return (x, y) if self._rank[x] <= self._rank[y] else (y, x)

    def _reached(self, first: int, last: int) -> set[int]:
        """Return the nodes that ``first`` reaches without its direct edge to ``last``.

        The result contains ``last`` if a path through a third node connects ``first`` and ``last``.
        Nodes after ``last`` in the topological order are left out.
        """
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
        """Move the contraction of ``first`` and ``last`` to a valid position in the order.

        The order stays topological: the position is after all sources of ``last`` and before all
        readers of ``first``.
        """
        begin, end = self._rank[first], self._rank[last]
        reached = self._reached(first, last)
        assert last not in reached, "expected nodes that may be merged"
        between = [n for n in self._slots[begin + 1 : end] if n is not None]
        order = [
            *(node for node in between if node not in reached),
            min(first, last),
            *(node for node in between if node in reached),
        ]
        # Put free slots first: the next contractions are mostly after this node.
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
    """Contract neighbors with equal labels until no more contractions are possible.

    Neighbors are nodes with an edge between them; with ``siblings`` also nodes with a common
    source or reader. Pairs of a node and its sources are tried first.

    Args:
        graph: the graph, which is changed in place.
        labels: the label of each node; None for nodes that are not contracted.
        allowed: predicate that tells whether two nodes may be contracted.
        siblings: whether nodes with a common source or reader are neighbors.
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
    """Yield pairs of neighbors around ``node``: first ``node`` with each of its sources.

    With ``siblings``, all pairs of readers of ``node`` follow, then all pairs of its sources.
    """
    if graph.find(node) != node:
        return
    yield from ((source, node) for source in graph.sources(node))
    if siblings:
        yield from itertools.combinations(graph.readers(node), 2)
        yield from itertools.combinations(graph.sources(node), 2)

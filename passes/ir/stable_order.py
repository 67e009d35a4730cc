"""Sorts a graph's nodes topologically and stably."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping


def stable_order(sources: Mapping[int, Collection[int]]) -> list[int]:
    """Return a graph's nodes in topological order; among ready nodes, the smallest comes first.

    ``sources`` maps each node to its predecessors; the graph must have no cycle.
    """
    readers: dict[int, list[int]] = {number: [] for number in sources}
    missing = {number: len(found) for number, found in sources.items()}
    for number, found in sources.items():
        for source in found:
            readers[source].append(number)
    ready = [number for number, count in missing.items() if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    assert len(order) == len(sources), "something waits for itself"
    return order

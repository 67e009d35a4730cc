"""Tests that merging regions of random graphs keeps the graphs acyclic, and leaves no legal pair.

A pair of regions is legal if it may still be merged.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from rammer_mlir.passes.regions.quotient import Quotient, merge_regions

Sources = list[list[int]]


def is_acyclic(sources: Sequence[Sequence[int]], region: Sequence[int]) -> bool:
    """Return whether the graph of regions is acyclic, by removing regions without sources.

    ``region`` has the region of each node.
    """
    waits: dict[int, set[int]] = {number: set() for number in region}
    for node, found in enumerate(sources):
        waits[region[node]] |= {region[source] for source in found} - {region[node]}
    while waits:
        ready = {number for number, found in waits.items() if not found & waits.keys()}
        if not ready:
            return False
        waits = {number: found for number, found in waits.items() if number not in ready}
    return True


def merged(
    sources: Sources, labels: Sequence[str | None], *, siblings: bool = False
) -> tuple[Quotient, list[int]]:
    graph = Quotient(sources)
    merge_regions(graph, labels, siblings=siblings)
    return graph, [graph.find(node) for node in range(len(sources))]


def random_graph(rng: random.Random) -> tuple[Sources, list[str | None]]:
    """Return a random graph, sparse or dense, and for each node a random label or None."""
    count, reach = rng.randint(2, 16), rng.choice((3, 6, 16))
    degrees = rng.choice(((0, 1, 2), (0, 0, 1, 2), (1, 2, 3)))
    sources = [
        sorted({rng.randrange(max(0, node - reach), node) for _ in range(rng.choice(degrees))})
        if node
        else []
        for node in range(count)
    ]
    return sources, [rng.choice(("one", "other", None, "one")) for _ in range(count)]


def test_the_pair_of_regions_that_would_wait_for_each_other() -> None:
    """Of two merges that form a cycle together, only the first is made.

    The edges are a -> p -> m, b -> m, b -> q -> n and a -> n. Merging a with n is legal, and so is
    merging b with m, but both together form a cycle.
    """
    a, p, b, q, m, n = range(6)
    sources: Sources = [[], [a], [], [b], [p, b], [q, a]]
    labels = ["one", None, "one", None, "one", "one"]
    _, region = merged(sources, labels)
    assert is_acyclic(sources, region)
    assert not is_acyclic(sources, [a, p, b, q, b, a])
    assert (region[m], region[n]) == (b, n)


@pytest.mark.parametrize("siblings", [False, True])
def test_random_graphs_stay_acyclic_and_nothing_legal_is_left(siblings: bool) -> None:
    rng = random.Random(7)
    for _ in range(10_000):
        sources, labels = random_graph(rng)
        graph, region = merged(sources, labels, siblings=siblings)
        assert is_acyclic(sources, region)
        for x, y in itertools.combinations(sorted(set(region)), 2):
            if labels[x] is None or labels[x] != labels[y]:
                continue
            near = x in graph.sources(y) or y in graph.sources(x)
            if siblings:
                near |= bool(set(graph.sources(x)) & set(graph.sources(y)))
                near |= bool(set(graph.readers(x)) & set(graph.readers(y)))
            together = [x if number == y else number for number in region]
            assert not (near and is_acyclic(sources, together)), (sources, labels)


def test_whether_two_nodes_may_merge_is_exact_and_the_order_topological() -> None:
    rng = random.Random(8)
    for _ in range(1000):
        sources, _ = random_graph(rng)
        graph = Quotient(sources)
        for _ in range(8):
            region = [graph.find(node) for node in range(len(sources))]
            order = graph.order()
            assert sorted(order) == sorted(set(region))
            for node in order:
                assert all(order.index(s) < order.index(node) for s in graph.sources(node))
            x, y = rng.choice(region), rng.choice(region)
            together = [x if number == y else number for number in region]
            assert graph.may_merge(x, y) == (x != y and is_acyclic(sources, together))
            if graph.may_merge(x, y):
                assert graph.merge(x, y) == min(x, y)


def test_a_pair_becomes_legal_when_what_stood_between_has_joined() -> None:
    sources: Sources = [[], [0], [0, 1]]
    assert not Quotient(sources).may_merge(0, 2)
    assert merged(sources, ["one"] * 3)[1] == [0, 0, 0]


def test_members_and_neighbors_of_a_merged_node() -> None:
    graph = Quotient([[], [0], [1], [1, 2]])
    assert graph.merge(2, 1) == 1
    assert list(graph.members(2)) == [1, 2]
    assert (graph.sources(1), graph.readers(2)) == ([0], [3])


def test_a_further_condition_is_kept() -> None:
    graph = Quotient([[], [0], [1]])
    merge_regions(
        graph, ["one"] * 3, lambda a, b: len(graph.members(a)) + len(graph.members(b)) < 3
    )
    assert [graph.find(node) for node in range(3)] == [0, 0, 2]


def test_siblings_are_neighbors_only_if_asked() -> None:
    sources: Sources = [[], [0], [0]]
    labels = [None, "one", "one"]
    assert merged(sources, labels)[1] == [0, 1, 2]
    assert merged(sources, labels, siblings=True)[1] == [0, 1, 1]


def test_ten_thousand_operations_in_a_chain_take_no_time() -> None:
    sources: Sources = [[node - 1] if node else [] for node in range(10_000)]
    _, region = merged(sources, ["one"] * len(sources))
    assert set(region) == {0}

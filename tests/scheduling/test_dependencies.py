"""Tests that the dependencies between the rTasks of a graph follow from the elements they touch."""

from __future__ import annotations

import pytest

from rammer_mlir.scheduling.dependencies import Dependencies
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.overlap import TaskPairs
from tests.scheduling.graphs import SMALL, GraphMaker, Tensor, random_graph, random_updates
from tests.scheduling.interleavings import Tasks

GRAPHS = {
    **{name: make() for name, make in SMALL.items()},
    **{f"random{seed}": random_graph(seed, length=12) for seed in range(20)},
    **{f"updates{seed}": random_updates(seed, length=12) for seed in range(20)},
}


def needed(graph: TaskGraph, kernels: tuple[int, ...]) -> list[int]:
    """Return for each rTask the mask of the rTasks that it depends on by ``Dependencies``.

    rTasks are numbered as in ``Tasks``.
    """
    tasks, dependencies = Tasks(graph, kernels), Dependencies(graph)
    masks = [0] * tasks.count
    for consumer in range(len(graph.operators)):
        for edge in dependencies.edges(consumer, kernels):
            for rtask in range(len(edge.pairs.row)):
                for other in edge.pairs.of(rtask).tolist():
                    masks[tasks.base[consumer] + rtask] |= 1 << (tasks.base[edge.producer] + other)
    return masks


def closure(masks: list[int]) -> list[int]:
    """Return for each rTask the mask of rTasks that it waits for, directly or through others.

    ``masks`` has the direct waits, which are for rTasks of smaller indices.
    """
    found: list[int] = []
    for mask in masks:
        found.append(mask)
        for task, earlier in enumerate(found[:-1]):
            if mask >> task & 1:
                found[-1] |= earlier
    return found


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_no_dependency_is_missed_and_few_are_added(name: str, last: bool) -> None:
    """No dependency is missed, and most graphs have no additional dependencies.

    Tiles of a reshaped matrix that begin or end inside a row may depend on more rTasks than needed.
    In each graph, there are at most 1.5 times as many dependencies as needed.
    """
    graph = GRAPHS[name]
    kernels = tuple(len(o.kernels) - 1 if last else 0 for o in graph.operators)
    expected = Tasks(graph, kernels).needs
    found = needed(graph, kernels)
    updates = any(kernel.updates for operator in graph.operators for kernel in operator.kernels)
    # Of an element that is updated again and again, only the latest uses are awaited.
    reached = closure(found) if updates else found
    assert all(not exact & ~more for exact, more in zip(expected, reached, strict=True))
    if not name.startswith(("random", "updates")) and name not in ("branches", "in_place"):
        assert found == expected
    if name == "in_place":
        assert all(not more & ~exact for exact, more in zip(expected, found, strict=True))
    total = sum(mask.bit_count() for mask in expected)
    assert sum(mask.bit_count() for mask in found) <= 1.5 * total


def test_producers_are_found_through_every_operand() -> None:
    graph = SMALL["branches"]()
    dependencies = Dependencies(graph)
    names = [[graph.operators[p].name for p in dependencies.producers(c)] for c in range(8)]
    concatenation = ["map3", "map4", "map5"]
    assert names == [
        [],
        [],
        ["map1"],
        ["map0"],
        ["stencil1_2"],
        ["map0"],
        concatenation,
        ["map6", *concatenation],
    ]


def recurrence(num_steps: int) -> tuple[TaskGraph, int]:
    """Return the graph of a recurrence, and the index of the operator of its first cell.

    Each cell reads its row of the inputs and the previous cell's row of the states.
    """
    maker = GraphMaker()
    inputs = maker.elementwise(maker.tensor(num_steps, 16, kind="input"), tile=(1, 16))
    states = maker.tensor(num_steps + 1, 16)
    maker.elementwise(maker.tensor(1, 16, kind="input"), tile=(1, 16), out=row(states, 0))
    for step in range(num_steps):
        cell = row(inputs, step), row(states, step)
        maker.elementwise(*cell, tile=(1, 4), out=row(states, step + 1))
    maker.output(states, (4, 16))
    return maker.graph(), 2


def row(tensor: Tensor, number: int) -> Tensor:
    return tensor.part((number, 1), (0, tensor.shape[1]))


def test_cells_of_a_recurrence_share_one_pattern() -> None:
    """The dependency of a cell on the previous cell is computed once for all steps.

    All cells write one buffer; only the writers of the row that is read are considered.
    """
    graph, first = recurrence(200)
    dependencies = Dependencies(graph)
    kernels = [0] * len(graph.operators)
    patterns: dict[TaskPairs, int] = {}
    for number in range(first + 1, first + 200):
        edges = list(dependencies.edges(number, kernels))
        assert [edge.producer for edge in edges] == [0, number - 1]
        assert [edges[0].pairs.of(t).tolist() for t in range(4)] == [[number - first]] * 4
        assert [edges[1].pairs.of(t).tolist() for t in range(4)] == [[0], [1], [2], [3]]
        patterns[edges[1].pairs] = number
    assert len(patterns) == 1


def test_updates_wait_for_the_latest_only() -> None:
    """Each update in a chain of updates depends on the previous update alone.

    That holds even if the tiles of the two updates have different shapes.
    """
    maker = GraphMaker()
    x, state = maker.tensor(8, 8, kind="input"), maker.tensor(8, 8, kind="inout")
    for number in range(100):
        maker.update(state, x, tile=((2, 4), (4, 2), (8, 1))[number % 3])
    graph = maker.graph()
    dependencies = Dependencies(graph)
    for number in range(1, 100):
        assert dependencies.producers(number) == [number - 1]


def test_updates_of_parts_reach_back_to_the_last_of_each_part() -> None:
    maker = GraphMaker()
    x, state = maker.tensor(4, 8, kind="input"), maker.tensor(8, 8, kind="inout")
    upper, lower = state.part((0, 4), (0, 8)), state.part((4, 4), (0, 8))
    for part in (upper, lower, upper, upper, lower):
        maker.update(part, x, tile=(2, 8))
    maker.elementwise(state, tile=(8, 8))
    maker.update(upper, x, tile=(2, 8))
    dependencies = Dependencies(maker.graph())
    found = [dependencies.producers(number) for number in range(7)]
    assert found == [[], [], [0], [2], [1], [4, 3], [5, 3]]

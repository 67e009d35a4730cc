"""Tests that fusion by predicted time estimates costs correctly, and is optimal on trees.

No other rule for fusion is predicted to give a faster program.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache
from math import inf

import pytest
from elementwise_graphs import elementwise_graph

from rammer_mlir.benchmarks.models import build
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.fusion.boundaries import UniqueInputs
from rammer_mlir.passes.fusion.cheapest import RULES, CheapestGroups
from rammer_mlir.passes.fusion.greedy import group_operations
from rammer_mlir.passes.fusion.tree_cuts import Unit
from rammer_mlir.passes.ir.entry import entry_block, functions, is_private
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.tiling.choice import refinements
from rammer_mlir.passes.tiling.kernel import Computation, TiledDomain, loop_limits, tile_cost
from rammer_mlir.passes.tiling.space_cost import SpaceCost
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device

MODELS = ("transformer_encoder", "squeezenet", "layer_norm_head", "nas_cell", "lstm_bidirectional")

GENERAL = (
    "linalg-generalize-named-ops,canonicalize,cse,rtask-externalize-constants,rtask-pack-weights,"
    "canonicalize,cse"
)


@cache
def linalg(name: str) -> str:
    """Return a small benchmark model as MLIR text, just before rOperators are formed."""
    model = build(name, scale="small")
    compilation = Compilation.of_model(model, check_options(num_veus=1))
    compilation.run_to("linalg")
    run_pipeline(compilation.module, f"builtin.module({GENERAL})")
    return str(compilation.module)


@pytest.mark.parametrize("name", MODELS)
def test_costs_are_those_of_the_rkernels_that_would_be_made(name: str) -> None:
    compared = 0
    with ir.Context():
        module = ir.Module.parse(linalg(name))
        run_pipeline(module, "builtin.module(rtask-form-operators{boundary=inputs inputs=0})")
        for function in functions(module):
            computation = Computation(function)
            space = computation.space if is_private(function) else None
            if space is None:
                continue
            cost = SpaceCost(space, set(computation.block.arguments), computation.returned)
            extents = [tile_class.extent for tile_class in space.classes]
            limits = loop_limits(computation.outside, space)
            for tiling in itertools.islice(refinements(extents, limits, cost.of), 6):
                assert cost.of(tiling) == tile_cost(computation, TiledDomain(space, tiling))
                compared += 1
    assert compared > 0


@pytest.mark.parametrize("device", ["cpu", "h100"])
@pytest.mark.parametrize("name", MODELS)
def test_no_other_boundary_is_predicted_to_be_faster(name: str, device: str) -> None:
    with ir.Context():
        module = ir.Module.parse(linalg(name))
        block = entry_block(module)
        search = CheapestGroups(block, find_device(device).device(4))
        found = search.price(search.groups())
        assert 0 < found < inf
        for rule in RULES:
            assert found <= search.price(group_operations(block, rule)) * (1 + 1e-9), rule


def test_products_keep_the_loops_that_they_could_cut() -> None:
    """Fusion by predicted time leaves each matrix product at least one loop that can be tiled.

    Fusion without a limit on inputs does not: it fuses a product with a reduction of whole rows,
    so that the product's columns can no longer be tiled.
    """
    with ir.Context():
        module = ir.Module.parse(linalg("transformer_encoder"))
        block = entry_block(module)
        search = CheapestGroups(block, find_device("cpu").device(2))
        found = search.price(search.groups())
        loose = search.price(group_operations(block, UniqueInputs(0)))
    assert found < inf
    assert loose == inf


def test_equal_layers_are_estimated_once() -> None:
    """The number of cost estimates grows at most linearly with the number of equal layers."""
    device = find_device("cpu").device(4)
    patterns: list[int] = []
    for steps in (6, 12):
        graph = {"a": ["x"]}
        for step in range(1, steps):
            graph[f"a{step}"] = [f"a{step - 1}" if step > 1 else "a", "y"]
        with ir.Context():
            module = ir.Module.parse(elementwise_graph(["x", "y"], graph, [f"a{steps - 1}"]))
            search = CheapestGroups(entry_block(module), device)
            search.groups()
            patterns.append(search.costs.num_patterns)
    assert patterns[1] <= 2 * patterns[0] + 4


def trees(draw: random.Random) -> dict[str, list[str]]:
    """Return a random tree as a mapping from each operation to its operands.

    ``a'`` is the transpose of operand ``a``. If an operation reads both, no loop can be tiled after
    the operation is fused with ``a``.
    """
    names = "abcdefg"[: draw.randrange(2, 8)]
    graph: dict[str, list[str]] = {
        name: draw.sample("xyzuv", draw.randrange(1, 4)) for name in names
    }
    for number, name in enumerate(names[:-1]):
        readings = draw.choice(([name], [f"{name}'"], [name, f"{name}'"], [name, f"{name}'"]))
        graph[names[draw.randrange(number + 1, len(names))]].extend(readings)
    return graph


def cuts(graph: dict[str, list[str]]) -> Iterator[list[Unit]]:
    """Yield every division of a tree into units, one for each subset of its edges that is cut.

    ``graph`` has the operands of each operation, as ``trees`` returns them. The operations that
    the remaining edges connect are a unit: the set of their positions in ``graph``.
    """
    names = list(graph)
    edges = [(names.index(s[0]), names.index(n)) for n in names for s in graph[n] if s[0] in names]
    for kept in itertools.product((False, True), repeat=len(edges)):
        unit_of = {number: {number} for number in range(len(names))}
        for (a, b), is_kept in zip(edges, kept, strict=True):
            if is_kept:
                merged = unit_of[a] | unit_of[b]
                unit_of.update(dict.fromkeys(merged, merged))
        yield list({Unit(unit) for unit in unit_of.values()})


NARROW = Device("narrow", 4, 1e9, 1e9, 4e9, 1e-7, 2e-6, 1e-5)
"""A device whose vEUs do not share bandwidth: idle vEUs cost more time than fusion saves."""


@pytest.mark.parametrize("seed", range(25))
def test_trees_are_cut_as_by_brute_force(seed: int) -> None:
    graph = trees(random.Random(seed))
    text = elementwise_graph(list("xyzuv"), graph, [list(graph)[-1]], "64x64")
    with ir.Context():
        module = ir.Module.parse(text)
        block = entry_block(module)
        places = [n for n, op in enumerate(block.operations) if op.name == "linalg.generic"]
        search = CheapestGroups(block, NARROW)
        found = search.price(search.groups())
        best = min(
            sum(search.costs.seconds(Unit(places[n] for n in unit)) for unit in units)
            for units in cuts(graph)
        )
    assert found == pytest.approx(best)


def test_a_transposition_that_would_leave_one_rtask_ends_an_operator() -> None:
    """An operation that reads a value both plain and transposed is not fused with its producer.

    No loop could be tiled then, so that a single rTask would do all the work.
    """
    graph = {"a": ["x", "x"], "b": ["a'", "a"], "c": ["b", "y"]}
    text = elementwise_graph(["x", "y"], graph, ["c"], "64x64")
    with ir.Context():
        module = ir.Module.parse(text)
        groups = CheapestGroups(entry_block(module), NARROW).groups()
    assert [len(group.operations) for group in groups] == [1, 2]

"""Tests that fusion gives no rOperator more inputs than the limit allows (Dali's F_max).

The graphs are small. Other rules that end rOperators are tested, too.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from elementwise_graphs import elementwise_graph
from test_fusion import CONV, SOFTMAX, product

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.fusion.boundaries import Parallelism, Separate, UniqueInputs
from rammer_mlir.passes.fusion.greedy import group_operations
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.stable_order import stable_order
from rammer_mlir.passes.manager import run_pipeline

DIAMOND = {"a": ["x", "y"], "b": ["a", "x"], "c": ["a", "y"], "d": ["b", "c"]}


def groups(text: str, most: int | None) -> list[list[int]]:
    """Return the groups of operations that fusion forms in the function ``text``, MLIR at `linalg`.

    A group is the list of its operations' positions in the function. ``most`` is the largest number
    of inputs of an rOperator, or 0 for no limit; None selects the boundary by parallelism.
    """
    with ir.Context():
        module = ir.Module.parse(text)
        run_pipeline(module, "builtin.module(linalg-generalize-named-ops)")
        boundary = Parallelism() if most is None else UniqueInputs(most)
        found = group_operations(entry_block(module), boundary)
        order = [op.operation for group in found for op in group.operations]
        generics = [o.operation for o in entry_block(module).operations if o.operation in order]
        return [[generics.index(op.operation) for op in group.operations] for group in found]


def graph_groups(
    arguments: str, operations: Mapping[str, Sequence[str]], results: str, most: int
) -> list[str]:
    """Return the groups that fusion forms in a graph, each as the joined names of its operations.

    All names have one letter. ``arguments`` has the names of inputs, separated by blanks, and
    ``results`` those of results; ``operations`` is that of ``elementwise_graph``. ``most`` is the
    largest number of inputs of a group.
    """
    names = list(operations)
    found = groups(elementwise_graph(arguments.split(), operations, list(results)), most)
    return ["".join(names[n] for n in group) for group in found]


def test_a_shared_input_is_counted_once() -> None:
    assert graph_groups("x y", DIAMOND, "d", 2) == ["abcd"]
    # With one input, only d could join: it reads b and c, which are two values.
    assert graph_groups("x y", DIAMOND, "d", 1) == ["a", "b", "c", "d"]


def test_an_operation_that_needs_one_more_input_begins_a_unit_as_its_leaf() -> None:
    chain = {"a": ["x", "y"], "b": ["a", "z"], "c": ["b", "v"], "d": ["c"], "e": ["d", "u"]}
    assert graph_groups("x y z v u", chain, "e", 2) == ["a", "b", "cd", "e"]
    assert graph_groups("x y z v u", chain, "e", 3) == ["ab", "cde"]
    assert graph_groups("x y z v u", chain, "e", 4) == ["abcd", "e"]
    assert graph_groups("x y z v u", chain, "e", 5) == ["abcde"]


def test_weights_count_and_numbers_do_not() -> None:
    chain = {"a": ["x", "w"], "b": ["a", "x"]}
    assert graph_groups("x w", chain, "b", 1) == ["a", "b"]
    assert graph_groups("x w", chain, "b", 2) == ["ab"]


def test_an_operation_with_more_inputs_than_allowed_is_a_unit_of_its_own() -> None:
    wide = {"a": ["x"], "b": ["a", "x", "y", "z"], "c": ["b"]}
    assert graph_groups("x y z", wide, "c", 2) == ["a", "b", "c"]
    assert graph_groups("x y z", wide, "c", 3) == ["abc"]


def test_no_limit_fuses_what_is_legal() -> None:
    chain = {"a": ["x", "y"], "b": ["a", "z"], "c": ["b", "v"], "d": ["c", "u"]}
    assert graph_groups("x y z v u", chain, "d", 0) == ["abcd"]


def test_an_input_that_becomes_inner_counts_no_more() -> None:
    """A value that an operation of the group computes does not count as an input of the group."""
    assert graph_groups("x", {"a": ["x"], "b": ["a", "x"]}, "b", 1) == ["ab"]


def test_fills_are_no_inputs() -> None:
    """A fill is not counted as an input: a convolution with a bias has three inputs."""
    assert len(groups(CONV, 2)) > len(groups(CONV, 3)) == 1


def test_nothing_is_fused_on_demand() -> None:
    with ir.Context():
        module = ir.Module.parse(SOFTMAX)
        run_pipeline(module, "builtin.module(linalg-generalize-named-ops)")
        found = group_operations(entry_block(module), Separate())
        assert [len(group.operations) for group in found] == [1] * len(found)
        assert len(found) == 4


def test_softmax_reads_one_tensor() -> None:
    assert len(groups(SOFTMAX, 1)) == 1


@pytest.mark.parametrize(("enough", "count"), [(64, 4), (17, 4), (16, 1), (1, 1)])
def test_rows_that_occupy_all_units_are_fused(enough: int, count: int) -> None:
    """The operations of a softmax of 16 long rows are fused if 16 rTasks keep the device busy.

    ``enough`` is the least number of rTasks that does; ``count`` is the expected number of groups.
    """
    long = SOFTMAX.replace("64x100xf32", "16x50257xf32").replace("tensor<64xf32>", "tensor<16xf32>")
    with ir.Context():
        module = ir.Module.parse(long)
        run_pipeline(module, "builtin.module(linalg-generalize-named-ops)")
        assert len(group_operations(entry_block(module), Parallelism(enough))) == count


def test_two_products_are_never_one() -> None:
    """Two dependent matrix products are never fused, whatever the boundary."""
    text = f"""
func.func @main(%x: tensor<8x8xf32> {{rtask.name = "x"}}) -> (tensor<8x8xf32>
    {{rtask.name = "y"}}) {{
  %zero = arith.constant 0.0 : f32
  {product("one", "x", "x", 8, 8, 8)}
  {product("two", "one", "one", 8, 8, 8)}
  return %two : tensor<8x8xf32>
}}
"""
    assert len(groups(text, 0)) == 2


@pytest.mark.parametrize("seed", range(40))
def test_groups_do_not_wait_for_each_other(seed: int) -> None:
    draw = random.Random(seed)
    inputs, names = "uvwxyz", "abcdefghijkl"
    graph = {
        name: draw.sample(inputs + names[:number], draw.randrange(1, 4))
        for number, name in enumerate(names)
    }
    read = {source for used in graph.values() for source in used}
    results = [name for name in names if name not in read]
    text = elementwise_graph(list(inputs), graph, results)
    for most in (None, 0, 2, 3, 4):
        found = groups(text, most)
        group_of = {names[n]: number for number, group in enumerate(found) for n in group}
        sources = {
            number: {group_of[s] for n in group for s in graph[names[n]] if s in names} - {number}
            for number, group in enumerate(found)
        }
        assert len(stable_order(sources)) == len(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("boundary=all", "boundary: expected one of none, parallelism, inputs, cost, found 'all'"),
        ("enough=0", "enough: expected at least 1, found 0"),
        ("boundary=inputs inputs=-1", "inputs: expected at least 0, found -1"),
        ("boundary=cost device=abacus", "abacus"),
        ("boundary=cost num-veus=0", "num-veus: expected at least 1, found 0"),
    ],
)
def test_options_that_do_not_exist(options: str, message: str) -> None:
    with ir.Context():
        module = ir.Module.parse(SOFTMAX)
        with pytest.raises(OptionError, match=message):
            run_pipeline(module, f"builtin.module(rtask-form-operators{{{options}}})")

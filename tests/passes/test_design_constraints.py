"""Tests that design problems are read correctly from IR, and that their solutions are optimal.

A problem has the loops, indices, values and memory traffic of an rOperator.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from rammer_mlir import dialects
from rammer_mlir.benchmarks.models import build
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.options import check_options
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.passes.design.constraints import read_problem
from rammer_mlir.passes.ir.entry import computations
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.passes.tiling.space import is_free
from rammer_mlir.scheduling.designs.coupling import couple
from rammer_mlir.scheduling.designs.machine import machine_of
from rammer_mlir.scheduling.designs.outcome import find_design
from rammer_mlir.scheduling.designs.problem import Decision, LoopKind, Problem, Span
from rammer_mlir.scheduling.designs.search import best_first, num_designs
from rammer_mlir.scheduling.devices.catalog import find_device

MOST_EXHAUSTED = 1 << 12


@contextmanager
def function_of(text: str) -> Generator[Computation]:
    """Yield the only function of a module, parsed from text."""
    with ir.Context():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        yield Computation(function)


def problem_of(text: str, *, decide_values: bool = False) -> Problem:
    """Return the design problem of the only function of a module in MLIR text.

    With ``decide_values``, the search also decides which shared values are kept or recomputed.
    """
    with function_of(text) as computation:
        problem = read_problem(computation, decide_values=decide_values)
    assert problem is not None
    return problem


def spread_loops(problem: Problem) -> set[str]:
    """Return the names of the loops that may be distributed over vEUs."""
    return {problem.loops[n].name for c in couple(problem) if c.may_spread for n in c.loops}


CROSS_ENTROPY = """
#all = affine_map<(b, t, v) -> (b, t, v)>
#row = affine_map<(b, t, v) -> (b, t)>
#id = affine_map<(b, t) -> (b, t)>
func.func private @f(%x: tensor<32x100x1000xf32>, %labels: tensor<32x100xi64>)
    -> tensor<32x100xf32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<32x100xf32>
  %empty = tensor.empty() : tensor<32x100x1000xf32>
  %max_start = linalg.generic {indexing_maps = [affine_map<(b, t) -> ()>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%low : f32) outs(%rows : tensor<32x100xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<32x100xf32>
  %max = linalg.generic {indexing_maps = [#all, #row],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<32x100x1000xf32>) outs(%max_start : tensor<32x100xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %m = arith.maximumf %in, %acc : f32
    linalg.yield %m : f32
  } -> tensor<32x100xf32>
  %exp = linalg.generic {indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %max : tensor<32x100x1000xf32>, tensor<32x100xf32>)
      outs(%empty : tensor<32x100x1000xf32>) {
  ^bb0(%in: f32, %m: f32, %o: f32):
    %d = arith.subf %in, %m : f32
    %e = math.exp %d : f32
    linalg.yield %e : f32
  } -> tensor<32x100x1000xf32>
  %sum_start = linalg.generic {indexing_maps = [affine_map<(b, t) -> ()>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%zero : f32) outs(%rows : tensor<32x100xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<32x100xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%exp : tensor<32x100x1000xf32>) outs(%sum_start : tensor<32x100xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %s = arith.addf %in, %acc : f32
    linalg.yield %s : f32
  } -> tensor<32x100xf32>
  %out = linalg.generic {indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%labels, %sum : tensor<32x100xi64>, tensor<32x100xf32>)
      outs(%rows : tensor<32x100xf32>) {
  ^bb0(%label: i64, %s: f32, %o: f32):
    %b = linalg.index 0 : index
    %t = linalg.index 1 : index
    %v = arith.index_cast %label : i64 to index
    %e = tensor.extract %exp[%b, %t, %v] : tensor<32x100x1000xf32>
    %p = arith.divf %e, %s : f32
    %l = math.log %p : f32
    linalg.yield %l : f32
  } -> tensor<32x100xf32>
  return %out : tensor<32x100xf32>
}
"""


def test_softmax_cross_entropy() -> None:
    """The design problem of softmax cross-entropy is that of Dali's paper, without 3 of 14 loops.

    Reduced dimensions of size 1 are not kept, and a gather has no loop.
    """
    problem = problem_of(CROSS_ENTROPY)
    names = [a.name for a in problem.assignments]
    assert names == ["maximumf_0", "exp_1", "addf_2", "log_3"]
    assert len(problem.loops) == 14 - 3
    assert spread_loops(problem) == {f"{name}.d{loop}" for name in names for loop in (0, 1)}
    outcome = find_design(problem, machine_of(find_device("v100").device()))
    assert (outcome.num_uncoupled, num_designs(outcome.spaces)) == (4**8 * 2**3, 4**2 * 2**2)
    by_lanes = {name for name, choice in outcome.chosen.items() if choice.by_lanes}
    assert by_lanes == {"maximumf_0.d2", "exp_1.d2", "addf_2.d2"}


def test_what_is_read_of_an_operation() -> None:
    problem = problem_of(CROSS_ENTROPY)
    kinds = [loop.kind for loop in problem.loops]
    assert [n for n, kind in enumerate(kinds) if kind is LoopKind.REDUCTION] == [2, 8]
    assert [loop.extent for loop in problem.loops[:3]] == [32, 100, 1000]
    assert [loop.contiguous for loop in problem.loops[:3]] == [False, False, True]
    assert [a.operations for a in problem.assignments] == [1, 17, 1, 21]
    assert [a.is_returned for a in problem.assignments] == [False, False, False, True]
    whole = tuple(Span(((loop, 1),)) for loop in (0, 1, 2))
    # The second reader of the same box finds it in the cache.
    assert [t.spans for t in problem.assignments[0].traffic] == [whole]
    assert problem.assignments[1].traffic == ()
    assert [t.is_write for t in problem.assignments[3].traffic] == [False, True]
    assert [t.element_bytes for t in problem.assignments[3].traffic] == [8, 4]


def test_decisions_are_on_values_that_are_broadcast_or_read_again() -> None:
    problem = problem_of(CROSS_ENTROPY, decide_values=True)
    assert [len(value.decisions) for value in problem.values] == [3, 3, 1, 1]
    stored = problem_of(CROSS_ENTROPY)
    assert {value.decisions for value in stored.values} == {(Decision.STORED,)}


WINDOW = """
#id = affine_map<(i) -> (i)>
func.func private @f(%x: tensor<32xf32>) -> tensor<10xf32> {
  %e = tensor.empty() : tensor<32xf32>
  %o = tensor.empty() : tensor<10xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<32xf32>) outs(%e : tensor<32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    linalg.yield %n : f32
  } -> tensor<32xf32>
  BETWEEN
  %z = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i * 3 + k)>,
      affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%between, %w : tensor<32xf32>, tensor<5xf32>) outs(%o : tensor<10xf32>) {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<10xf32>
  return %z : tensor<10xf32>
}
"""


def window(between: str, weight: str = "%w = tensor.empty() : tensor<5xf32>") -> str:
    """Return MLIR text of a function that sums windows of a value, which an operation computes.

    ``between`` is the text of that operation; ``weight`` is the text that defines ``%w``, the
    windows' weights.
    """
    return WINDOW.replace("BETWEEN", f"{weight}\n  %between = {between}")


VIEW = "tensor.cast %y : tensor<32xf32> to tensor<32xf32>"


def test_a_window_needs_elements_of_other_rtasks() -> None:
    problem = problem_of(window(VIEW).replace(f"%between = {VIEW}", "").replace("%between", "%y"))
    assert spread_loops(problem) == set()
    assert [read.dims for read in problem.reads] == [(None,)]


def test_a_value_behind_another_operation_is_indexed_by_no_loop() -> None:
    problem = problem_of(window(VIEW), decide_values=True)
    assert [read.dims for read in problem.reads] == [(None,)]
    assert spread_loops(problem) == set()
    assert {value.decisions for value in problem.values} == {(Decision.STORED,)}


def test_a_window_of_an_input_is_read_with_its_border() -> None:
    problem = problem_of(window(VIEW).replace(f"%between = {VIEW}", "").replace("%between", "%x"))
    (_, convolution) = problem.assignments
    assert convolution.traffic[0].spans == (Span(((1, 3), (2, 1))),)
    assert spread_loops(problem) == {"negf_0.d0", "addf_1.d0"}


def test_a_function_without_elements_has_no_design() -> None:
    text = CROSS_ENTROPY.replace("1000", "0")
    with function_of(text) as computation:
        assert read_problem(computation) is None


MODELS = ("layer_norm_head", "transformer_encoder")


def functions_of(model: str) -> Iterator[Computation]:
    """Yield the function of each rOperator of a model."""
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(import_model(build(model)).bytecode)
        run_pipeline(module, check_options(num_veus=2).portable_stages()[0].pipeline)
        yield from map(Computation, computations(module))


@pytest.mark.parametrize("model", MODELS)
def test_search_equals_exhaustion_on_models(model: str) -> None:
    """The search finds a design as cheap as the best of all, for each rOperator with few designs.

    The devices are a CPU and a GPU. On the GPU, loops may be tiled, and values may be recomputed or
    end a fused group.
    """
    tried = 0
    for computation in functions_of(model):
        for device, extended in (("cpu", False), ("h100", True)):
            problem = read_problem(computation, decide_values=extended)
            assert problem is not None
            machine = machine_of(find_device(device).device())
            for tiles in {False, extended}:
                outcome = find_design(problem, machine, tiles=tiles)
                assert outcome.found.design.cost <= outcome.default.cost
                if num_designs(outcome.spaces) > MOST_EXHAUSTED:
                    continue
                costs = (
                    space.bound(design)
                    for space in outcome.spaces
                    for design in product(*map(range, space.num_choices))
                )
                assert min(costs) == outcome.found.design.cost
                assert best_first(outcome.spaces).design == outcome.found.design
                tried += 1
    assert tried >= 6


@pytest.mark.parametrize("model", MODELS)
def test_what_is_tiled_today_may_be_spread(model: str) -> None:
    """Every loop that `rtask-tile` tiles may be distributed over rTasks in a design, too."""
    seen = 0
    for computation in functions_of(model):
        problem, space = read_problem(computation), computation.space
        if problem is None or space is None:
            continue
        costly = [n for n, op in enumerate(space.operations) if not is_free(op)]
        assert len(costly) == len(problem.assignments)
        spread = [set(found.loops) for found in couple(problem) if found.may_spread]
        for tiled in space.classes:
            cut = {problem.assignments[costly.index(n)].loops[tiled.loops[n]] for n in costly}
            assert any(cut <= found for found in spread)
            seen += 1
    assert seen > 3

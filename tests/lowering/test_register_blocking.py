"""Tests that the chosen micro tiles are good, for loop nests that are described by hand.

For example, a matmul fills the registers, and an elementwise nest keeps the order of memory.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import vector_steps
from rammer_mlir.lowering.cpu.vectorize.cost import conflicts, costs_in_cache, miss_cost, tiles_of
from rammer_mlir.lowering.cpu.vectorize.register_blocking import plan_tile
from rammer_mlir.lowering.cpu.vectorize.tile import Access, Loop, LoopNest, TilePlan


def _nest(
    trips: dict[str, int],
    reductions: str,
    inputs: list[dict[str, int | None]],
    output: dict[str, int],
) -> LoopNest:
    """Describe a contraction as a loop nest.

    ``trips`` has the number of iterations of each loop, by the loop's name; ``reductions`` is text
    that contains the names of the reduction loops. An operand is given by its stride along each
    loop; the stride is 0 along loops that it does not name, and None where it is not constant.
    """
    loops = tuple(
        Loop(count, static=True, reduction=name in reductions) for name, count in trips.items()
    )
    accesses = [Access(tuple(o.get(name, 0) for name in trips)) for o in (*inputs, output)]
    return LoopNest(
        loops, tuple(accesses[:-1]), tuple(accesses[-1:]), lanes=16, registers=30,
        reads_init=False, combinable=True,
    )  # fmt: skip


def _matmul(m: int, n: int, k: int) -> LoopNest:
    return _nest(
        {"m": m, "n": n, "k": k}, "k", [{"m": k, "k": 1}, {"k": n, "n": 1}], {"m": n, "n": 1}
    )


def test_matmul_fills_the_registers() -> None:
    plan = plan_tile(_matmul(256, 256, 256))
    assert plan.vector == 1
    assert 20 <= plan.accumulators <= 28
    assert plan.order[0] == 1  # the panel of b stays in cache


@pytest.mark.parametrize("registers", [14, 30])
def test_packed_rows_of_whole_lines_stay_in_cache(registers: int) -> None:
    """A panel of packed rows stays in cache: the loop over the other operand's rows is innermost.

    A row of 16 elements is one cache line, so that two vectors of 8 read no more lines than one.
    """
    nest = _nest(
        {"m": 64, "panel": 8, "n": 32, "k": 256}, "k",
        [{"m": 256, "k": 1}, {"panel": 8192, "n": 1, "k": 32}], {"m": 256, "panel": 32, "n": 1},
    )  # fmt: skip
    plan = plan_tile(replace(nest, lanes=8, registers=registers))
    assert plan.vector == 2 and plan.order[-1] == 0
    rows = dict(plan.unroll)[0]
    loads = rows + plan.accumulators // rows
    assert plan.accumulators > 10 and loads <= 2 / 3 * plan.accumulators


def test_transposed_b_reduces_along_the_lanes() -> None:
    nest = _nest(
        {"m": 64, "n": 64, "k": 512},
        "k",
        [{"m": 512, "k": 1}, {"n": 512, "k": 1}],
        {"m": 64, "n": 1},
    )
    plan = plan_tile(nest)
    assert plan.vector == 2
    assert plan.unroll


@pytest.mark.parametrize(("length", "few"), [(1024, True), (2048, True), (1008, False)])
def test_rows_of_the_same_cache_set_are_few(length: int, few: bool) -> None:
    """A micro tile has few rows if all rows are in the same cache set.

    That holds for rows of 4 KiB or a multiple; a set has 8 lines.
    """
    plan = plan_tile(
        _nest(
            {"m": 256, "n": 16, "k": 128},
            "k",
            [{"m": length, "k": 1}, {"k": 16, "n": 1}],
            {"m": 16, "n": 1},
        )
    )
    rows = plan.points(0)
    assert plan.vector == 1
    assert rows <= 8 if few else rows > 20


@pytest.mark.parametrize("stride", [1000, 1008, 1024, 512, 2048, 3072, 4096, 96, 16, 5])
def test_conflicts_are_those_of_a_simulated_cache(stride: int) -> None:
    """``conflicts`` agrees with a simulated 8-way cache of 32 KiB.

    Rows conflict if cache lines are evicted before their next read.
    """
    rows = 14
    access = Access((stride, 0, 1))
    nest = _nest(
        {"m": rows, "n": 16, "k": 8}, "k", [{"m": stride, "k": 1}, {"n": 1}], {"m": 16, "n": 1}
    )
    plan = TilePlan(1, 16, unroll=((0, rows),))
    sets: dict[int, list[int]] = {}
    misses = 0
    for k in range(16):
        for row in range(rows):
            line = (row * stride + k) // 16
            lines = sets.setdefault(line % 64, [])
            misses += line not in lines
            lines[:] = [*(other for other in lines if other != line), line][-8:]
    distinct = len({(row * stride + k) // 16 for row in range(rows) for k in range(16)})
    assert conflicts(nest, access, plan, {}) == (misses > distinct)


@pytest.mark.parametrize("columns_first", [False, True])
def test_the_operand_with_the_fewest_registers_stays_in_them(columns_first: bool) -> None:
    """The operand that needs the fewest registers stays in registers.

    Registers of the other operand are used as soon as they are loaded, so that few are live at a
    time.
    """
    channels: dict[str, int | None] = {"o": 68, "c": 1}
    pixels: dict[str, int | None] = {"w": 1, "c": 784}
    inputs = [pixels, channels] if columns_first else [channels, pixels]
    nest = _nest({"o": 68, "w": 784, "c": 68}, "c", inputs, {"o": 784, "w": 1})
    narrow = plan_tile(replace(nest, registers=14, lanes=8))
    assert narrow.vector == 1 and narrow.vectors > dict(narrow.unroll)[0]
    assert narrow.vectors_outermost
    wide = plan_tile(nest)
    assert wide.vector == 1 and wide.vectors < dict(wide.unroll)[0]
    assert not wide.vectors_outermost


def test_results_without_a_sum_are_stored_in_order() -> None:
    nest = _nest({"i": 64, "j": 4096}, "", [{"i": 1}, {"i": 4096, "j": 1}], {"i": 4096, "j": 1})
    assert not plan_tile(nest).vectors_outermost


def test_convolution_takes_the_packed_output_channels() -> None:
    trips = {"o": 64, "h": 8, "w": 56, "c": 64, "i": 3, "j": 3}
    image: dict[str, int | None] = {"h": 58, "w": 1, "c": 580, "i": 58, "j": 1}
    weights: dict[str, int | None] = {"c": 576, "i": 192, "j": 64, "o": 1}
    plan = plan_tile(_nest(trips, "cij", [image, weights], {"o": 448, "h": 56, "w": 1}))
    assert plan.vector == 0
    assert dict(plan.unroll).get(2, 1) > 1  # columns, so that the stores can be transposed


def test_scalar_code_where_nothing_is_contiguous_and_short() -> None:
    nest = _nest({"i": 1}, "", [{"i": 7}], {"i": 7})
    assert plan_tile(nest).vector is None


@pytest.mark.parametrize("trips", [(0, 64), (10, 0)])
def test_a_nest_without_iterations_has_scalar_code(trips: tuple[int, int]) -> None:
    rows, columns = trips
    nest = _nest({"i": rows, "j": columns}, "", [{"i": columns, "j": 1}], {"i": columns, "j": 1})
    assert plan_tile(nest).vector is None


def test_not_vectorizable() -> None:
    nest = _matmul(64, 64, 64)
    plan = plan_tile(
        LoopNest(nest.loops, nest.inputs, nest.outputs, 16, 30, vectorizable=False, combinable=True)
    )
    assert plan.vector is None


def test_elementwise_keeps_memory_order() -> None:
    nest = _nest({"i": 64, "j": 100}, "", [{"i": 100, "j": 1}, {"j": 1}], {"i": 100, "j": 1})
    plan = plan_tile(nest)
    assert plan.vector == 1
    assert plan.order[-1] == 1


def test_cost_counts_the_remainder() -> None:
    whole, ragged = _matmul(28, 64, 64), _matmul(29, 64, 64)
    plan = plan_tile(whole)
    cycles: list[float] = []
    for nest in (whole, ragged):
        tiles = tiles_of(nest, plan)
        (in_cache,) = costs_in_cache(nest, [(plan, tiles)])
        cycles.append(in_cache + miss_cost(nest, plan, tiles))
    assert cycles[1] > cycles[0]


def test_narrow_elements_apart_in_memory_are_stored_one_by_one() -> None:
    """Narrow elements that are apart in memory are stored one by one.

    No instruction scatters them; elements of 32 bits are scattered.
    """

    def column(lanes: int) -> LoopNest:
        loop = Loop(55, static=True, reduction=False)
        return LoopNest(
            (loop,), (), (Access((57,)),), lanes=lanes, registers=30, reads_init=False,
            combinable=False, line=lanes,
        )  # fmt: skip

    assert plan_tile(column(64)).vector is None
    assert plan_tile(column(16)).vector == 0


def test_few_registers_make_small_code() -> None:
    text = """func.func private @k(%id: index, %a: memref<64x64xf32>, %b: memref<64x64xf32>,
        %c: memref<64x64xf32>) {
      linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>)
                    outs(%c : memref<64x64xf32>)
      return
    }"""
    found: list[int] = []
    for registers in (0, 4):
        context = ir.Context()
        dialects.register(context)
        with context, ir.Location.unknown():
            module = ir.Module.parse(text)
            for step in vector_steps(512, registers):
                step.apply(module)
            found.append(str(module).count("arith.mulf"))
    assert found[0] > 4 * found[1] > 0

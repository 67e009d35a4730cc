"""Tests that tile sizes give rTasks of the desired numbers of operations and bytes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rammer_mlir
from rammer_mlir.passes.tiling.choice import (
    CONTIGUOUS,
    Aim,
    LoopLimit,
    TileCost,
    Tiling,
    choose,
    num_tiles,
)

extents = st.lists(st.integers(1, 300), min_size=1, max_size=4)


def cost(tiling: tuple[int, ...]) -> TileCost:
    """Return the cost of a tile: one operation and four bytes for each point."""
    return TileCost(prod(tiling), 4 * prod(tiling))


@given(extents, st.integers(1, 100_000), st.data())
def test_tiles_cover_the_loops_and_meet_the_aim_where_they_can(
    shape: list[int], operations: int, data: st.DataObject
) -> None:
    kinds = st.sampled_from([CONTIGUOUS, LoopLimit(), LoopLimit(smallest=3)])
    limits = [data.draw(kinds) for _ in shape]
    tiling = choose(shape, limits, cost, Aim(operations, 1 << 40))
    assert all(1 <= tile <= extent for tile, extent in zip(tiling, shape, strict=True))
    assert num_tiles(shape, tiling) * prod(tiling) >= prod(shape)
    if prod(tiling) > operations:
        smallest = [min(limit.smallest, e) for e, limit in zip(shape, limits, strict=True)]
        assert tiling == tuple(smallest)


def test_contiguous_loops_stay_whole_vectors() -> None:
    tiling = choose([64, 100], [LoopLimit(), CONTIGUOUS], cost, Aim(10, 1 << 40))
    assert tiling == (1, 32)


def test_divisors_are_preferred() -> None:
    assert choose([56], [LoopLimit()], cost, Aim(20, 1 << 40)) == (14,)


def test_equal_parts_are_preferred_to_ragged_halves() -> None:
    assert choose([55], [LoopLimit()], cost, Aim(30, 1 << 40)) == (11,)
    assert choose([13], [LoopLimit()], cost, Aim(7, 1 << 40)) == (7,)


def test_an_empty_loop_is_one_tile() -> None:
    assert choose([0, 5], [LoopLimit()] * 2, cost, Aim(1, 1)) == (0, 5)


def test_enough_rtasks_are_not_cut_where_that_moves_much_more() -> None:
    def product(tiling: tuple[int, ...]) -> TileCost:
        """Return the cost of a tile of a product of 8x4096 by 4096x512 elements."""
        rows, columns = tiling
        return TileCost(2 * rows * columns * 4096, 4 * 4096 * (rows + columns))

    limits = [LoopLimit(), CONTIGUOUS]
    assert choose([8, 512], limits, product, Aim(1 << 20, 1 << 30)) == (4, 32)
    assert choose([8, 512], limits, product, Aim(1 << 20, 1 << 30, enough=16)) == (8, 32)
    assert choose([8, 512], limits, product, Aim(1 << 20, 1 << 30, enough=17)) == (4, 32)
    assert choose([8, 512], limits, product, Aim(1 << 20, 1 << 19, enough=16)) == (4, 32)


@pytest.mark.parametrize("rows", [288, 290, 294, 300, 306])
def test_tiles_of_long_rows_have_several_micro_tiles(rows: int) -> None:
    """Tiles of a product with long rows have at least 16 rows, whatever divides the number of rows.

    A tile with fewer rows would read a panel of 12544x32 weights for few micro tiles. Some
    divisors of the number of rows allow small cuts, such as from 25 rows to 15, which increase
    the bytes less than halving would.
    """

    def product(tiling: tuple[int, ...]) -> TileCost:
        height, panels = tiling
        return TileCost(2 * height * panels * 32 * 12544, 4 * 12544 * (height + 32 * panels))

    aim = Aim(12_000_000, 3_000_000, enough=16)
    height, panels = choose([rows, 32], [LoopLimit()] * 2, product, aim)
    assert height >= 16 and panels == 1


def test_weights_that_every_rtask_reads_do_not_lead_to_tiny_tiles() -> None:
    """Weights that every rTask reads do not cause tiny tiles.

    Every tile reads 100 kB of weights, so that no tile meets the target of 1000 bytes, and cutting
    stops early.
    """

    def weighty(tiling: tuple[int, ...]) -> TileCost:
        return TileCost(1000 * prod(tiling), 100_000 + 4 * prod(tiling))

    aim = Aim(13_000, 1_000)
    assert choose([13, 13], [LoopLimit()] * 2, weighty, aim) == (1, 13)
    # What a memory has to hold is reached, whatever it costs.
    assert choose([13, 13], [LoopLimit()] * 2, weighty, replace(aim, memory=100_008)) == (1, 2)


def test_nothing_to_do_is_not_cut() -> None:
    """A loop nest with an empty loop is not tiled."""

    def cost(_: Tiling) -> TileCost:
        return TileCost(1 << 40, 1 << 40)

    assert choose((0, 64), (LoopLimit(), LoopLimit()), cost, Aim(1, 1)) == (0, 64)


@pytest.mark.parametrize("rows", [33, 64])
def test_temporaries_of_long_rows_fit_onto_a_stack(rows: int) -> None:
    """A tile of 32 rows of a language model's logits would need 6 MB of temporaries."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
      g (float[{rows},50257] q) => (float[{rows}] z) {{
        a = Constant<value_ints = [1]>()
        p = Softmax(q)  l = LogSoftmax(q)  m = Mul(p, l)  z = ReduceSum<keepdims = 0>(m, a) }}""")
    q = np.random.default_rng(0).standard_normal((rows, 50257)).astype(np.float32)
    with rammer_mlir.compile(model, cache=False, num_veus=2) as made:
        found = made.run({"q": q})["z"]
    wide = np.exp(q.astype(np.float64))
    share = wide / wide.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, (share * np.log(share)).sum(axis=1), rtol=1e-5)

"""Tests that micro tiles need not divide a panel of weights, and then give right results.

A store of a part of a register does not change the elements beside that part.
"""

from __future__ import annotations

import math
import random

import numpy as np
import onnx.parser
import pytest

import rammer_mlir
from rammer_mlir.lowering.cpu.vectorize import register_blocking
from rammer_mlir.lowering.cpu.vectorize.cost import costs_in_cache, tiles_of
from rammer_mlir.lowering.cpu.vectorize.register_blocking import plan_tile
from rammer_mlir.lowering.cpu.vectorize.tile import Access, Loop, LoopNest


def _packed_product(channels: int, places: int, terms: int) -> LoopNest:
    """Describe a product with weights in panels of 16 channels, for registers of AVX2.

    The result has ``channels`` times ``places`` elements; each is a sum of ``terms`` products.
    """
    loops = (
        Loop(channels, static=True, reduction=False, panel=16),
        Loop(places, static=True, reduction=False),
        Loop(terms, static=True, reduction=True),
    )
    inputs = (Access((0, 1, places)), Access((1, 0, 16)))
    return LoopNest(
        loops, inputs, (Access((places, 1, 0)),), lanes=8, registers=14, combinable=True
    )


def test_a_tile_need_not_divide_a_panel() -> None:
    """A micro tile need not divide a panel: 6 channels by 2 registers use the registers best.

    A panel of 16 channels is cut into 6, 6 and 4 channels, and the last one, of 8, into 6 and 2.
    """
    nest = _packed_product(40, 256, 112)
    plan = plan_tile(nest)
    assert (plan.vector, plan.vectors, dict(plan.unroll)) == (1, 2, {0: 6})
    counts = {points[0]: count for count, points in tiles_of(nest, plan)}
    assert counts == {6: 16 * 5, 4: 16 * 2, 2: 16}


def test_tiles_stay_within_panels_of_a_loop_of_unknown_length() -> None:
    loop = Loop(64, static=False, reduction=False, panel=16)
    assert [n for n in range(1, 17) if loop.allows_in_pieces(n)] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("seed", range(40))
def test_tiles_cover_the_nest_and_cost_at_least_their_bound(seed: int) -> None:
    """Micro tiles cover a random loop nest exactly, and no plan costs less than its bound.

    The search leaves out plans whose bound is above the best plan's cost.
    """
    rng = random.Random(seed)
    kinds = rng.choice(["pr", "ppr", "pprr", "pppr", "pp", "ppp"])
    loops = tuple(
        Loop(
            rng.choice([1, 2, 3, 5, 7, 8, 12, 13, 16, 17, 24, 31, 40, 63, 72]),
            static=rng.random() < 0.85,
            reduction=kind == "r",
            panel=rng.choice([0, 0, 5, 8, 16, 33]) if kind == "p" else 0,
        )
        for kind in kinds
    )
    inputs = tuple(Access(tuple(rng.choice([0, 1, None, 16]) for _ in loops)) for _ in range(2))
    output = Access(tuple(0 if loop.reduction else rng.choice([1, 16]) for loop in loops))
    nest = LoopNest(loops, inputs, (output,), lanes=8, registers=14, combinable=True)
    points = math.prod(loops[number].trips for number in nest.parallels)
    for each in register_blocking.candidates(nest):
        bounds = each.full_tiles.cycles_in_cache(nest)
        for number in rng.sample(range(len(each.unrolls)), min(20, len(each.unrolls))):
            plan = each.plan(number)
            tiles = tiles_of(nest, plan)
            covered = sum(count * math.prod(sizes.values()) for count, sizes in tiles)
            assert covered == points, plan
            (cost,) = costs_in_cache(nest, [(plan, tiles)])
            assert bounds[number] <= cost * (1 + 1e-12)


def _run(text: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    header = '<ir_version: 10, opset_import: ["": 21]>'
    with rammer_mlir.compile(onnx.parser.parse_model(f"{header} {text}"), num_veus=1) as made:
        return made.run(feeds)["y"]


@pytest.mark.parametrize("channels", [17, 24, 40, 44, 72])
def test_products_with_a_last_panel_of_few_channels(channels: int) -> None:
    """A 1x1 convolution and a ReLU are right if the last panel of weights has few channels."""
    rng = np.random.default_rng(channels)
    x = rng.standard_normal((1, 64, 16, 16)).astype(np.float32)
    w = rng.standard_normal((channels, 64, 1, 1)).astype(np.float32)
    values = ", ".join(f"{value!r}" for value in w.reshape(-1).tolist())
    text = f"""g (float[1,64,16,16] x) => (float[1,{channels},16,16] y)
        <float[{channels},64,1,1] w = {{{values}}}> {{ z = Conv(x, w)  y = Relu(z) }}"""
    expected = np.einsum("nchw,mc->nmhw", x.astype(np.float64), w[:, :, 0, 0].astype(np.float64))
    np.testing.assert_allclose(_run(text, {"x": x}), np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 9, 13, 15, 17, 31])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("float", "float32"), ("double", "float64"), ("float16", "float16"), ("int64", "int64"),
        ("int32", "int32"), ("int8", "int8"), ("uint8", "uint8"),
    ],
)  # fmt: skip
def test_parts_of_registers_leave_their_neighbors(kind: str, dtype: str, width: int) -> None:
    """Stores of parts of registers do not change the neighboring elements.

    Rows of any width are stored side by side in a larger tensor.
    """
    rng = np.random.default_rng(width)
    x, z = (rng.integers(0, 100, (6, size)).astype(dtype) for size in (width, 4))
    total = width + 4
    text = f"""g ({kind}[6,{width}] x, {kind}[6,4] z) => ({kind}[6,{total}] y) {{
        y = Concat<axis = 1>(x, z) }}"""
    np.testing.assert_array_equal(_run(text, {"x": x, "z": z}), np.concatenate([x, z], 1))

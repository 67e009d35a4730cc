"""Tests which panels, pieces of sums and streams micro tiles prefetch."""

from __future__ import annotations

from itertools import product

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.nest import Nest
from rammer_mlir.lowering.cpu.vectorize.prefetch import (
    PIECE,
    Panel,
    Rows,
    Stream,
    find_prefetches,
)
from rammer_mlir.lowering.cpu.vectorize.register_blocking import plan_tile
from rammer_mlir.lowering.cpu.vectorize.tile import TilePlan
from rammer_mlir.lowering.ir_walk import walk

LINE = 16

SOURCE = """
func.func private @k(%x: memref<{c}x{p}x16xf32>,
                     %w: memref<{k}x{c}x16x16xf32, strided<[{far}, 256, 16, 1]>>,
                     %y: memref<{k}x{p}x16xf32>) {{
  linalg.generic {{indexing_maps = [affine_map<(k, p, l, c, m) -> (c, p, m)>,
                                    affine_map<(k, p, l, c, m) -> (k, c, m, l)>,
                                    affine_map<(k, p, l, c, m) -> (k, p, l)>],
                   iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}}
    ins(%x, %w : memref<{c}x{p}x16xf32>,
                 memref<{k}x{c}x16x16xf32, strided<[{far}, 256, 16, 1]>>)
    outs(%y : memref<{k}x{p}x16xf32>) {{
  ^bb0(%a: f32, %b: f32, %s: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %s, %m : f32
    linalg.yield %r : f32
  }}
  return
}}"""


def _found(
    k: int, p: int, c: int, far: int, piece: bool
) -> tuple[list[Panel | Rows | Stream], TilePlan, list[int]]:
    """Return the prefetches and the micro tile of a product, and the dimensions of its loops.

    Args:
        k: number of panels of weights.
        p: number of rows of the left operand.
        c: number of blocks of 16 terms of the sum.
        far: distance between panels, in elements.
        piece: whether the product is a piece of a longer sum.
    """
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(SOURCE.format(k=k, p=p, c=c, far=far))
        (operation,) = [o for o in walk(module.operation) if o.name == "linalg.generic"]
        if piece:
            operation.attributes[PIECE] = ir.DenseI64ArrayAttr.get([3, c])
        with ir.InsertionPoint(operation):
            nest = Nest(operation)
            plan = plan_tile(nest.describe(512, [True]))
            return find_prefetches(nest, plan), plan, nest.loops


@pytest.mark.parametrize(
    ("k", "p", "c", "whole", "piece"),
    [
        (2, 121, 9, 252, True),
        (4, 121, 9, 252, True),
        (3, 121, 42, 42, False),
        (6, 42, 21, 21, False),
        (2, 30, 66, 66, False),
        (5, 49, 77, 77, False),
    ],
)
def test_the_next_panel_is_asked_for(k: int, p: int, c: int, whole: int, piece: bool) -> None:
    found, plan, loops = _found(k, p, c, whole * 256, piece)
    (panel,) = [each for each in found if isinstance(each, Panel)]
    points = {loop: plan.points(number) for number, loop in enumerate(loops)}
    blocks, shared = min(points.get(0, 1), k), -(-p // points[1])
    counts = {1: shared, 3: c, 4: 16}
    read = {
        block * whole * 256 + offset
        for block, offset in product(range(blocks), range(0, c * 256, LINE))
    }
    moves = [[(n * further) for n in range(counts[dim])] for dim, _, further in panel.moves]
    asked = {
        (place + sum(each) + number * LINE) // LINE * LINE
        for place in panel.registers
        for each in product(*moves)
        for number in range(panel.lines)
    }
    assert read <= asked
    assert len(asked) <= 2 * len(read)
    ahead = c * 256 if piece and blocks == k else blocks * whole * 256
    assert panel.ahead == ahead


def test_the_next_piece_of_the_image_is_asked_for() -> None:
    found, _, _ = _found(2, 121, 9, 252 * 256, piece=True)
    (rows,) = [each for each in found if isinstance(each, Rows)]
    assert (rows.ahead, rows.apart, rows.lines) == (9 * 121 * 16, 16, 1)


@pytest.mark.parametrize(("p", "c"), [(121, 1), (1, 42)])
def test_small_panels_and_those_read_once_are_not(p: int, c: int) -> None:
    found, _, _ = _found(2, p, c, c * 256, piece=False)
    assert not found


PRODUCT = """
func.func private @k(%x: memref<64x768xf32>, %w: memref<{weights}xf32>, %y: memref<64x{n}xf32>) {{
  linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                    affine_map<(m, n, k) -> ({place})>,
                                    affine_map<(m, n, k) -> (m, n)>],
                   iterator_types = ["parallel", "parallel", "reduction"]}}
    ins(%x, %w : memref<64x768xf32>, memref<{weights}xf32>) outs(%y : memref<64x{n}xf32>) {{
  ^bb0(%a: f32, %b: f32, %s: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %s, %m : f32
    linalg.yield %r : f32
  }}
  return
}}"""


def _found_in_product(weights: str, place: str, n: int) -> list[Panel | Rows | Stream]:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(PRODUCT.format(weights=weights, place=place, n=n))
        (operation,) = [o for o in walk(module.operation) if o.name == "linalg.generic"]
        with ir.InsertionPoint(operation):
            nest = Nest(operation)
            return find_prefetches(nest, plan_tile(nest.describe(512, [True])))


def test_rows_of_many_panels_are_not_asked_for() -> None:
    """Rows of weights that span many panels are not prefetched.

    Micro tiles would prefetch whole rows, although other micro tiles read most elements of a row.
    """
    assert not _found_in_product("768x1001", "k, n", 1001)


def test_the_next_of_panels_that_a_loop_goes_through_is_asked_for() -> None:
    (panel,) = _found_in_product("4x768x32", "n floordiv 32, k, n mod 32", 97)
    assert isinstance(panel, Panel)
    assert panel.ahead == 768 * 32


ROW = """
func.func private @k(%x: memref<{k}x{kind}>, %w: memref<{all}x{k}x32x{kind}>,
                     %y: memref<{n}x32x{kind}>, %first: index) {{
  %part = memref.reinterpret_cast %w to offset: [%first], sizes: [{n}, {k}, 32],
    strides: [{far}, 32, 1] : memref<{all}x{k}x32x{kind}>
    to memref<{n}x{k}x32x{kind}, strided<[{far}, 32, 1], offset: ?>>
  linalg.generic {{indexing_maps = [affine_map<(n, l, k) -> (k)>,
                                    affine_map<(n, l, k) -> (n, k, l)>,
                                    affine_map<(n, l, k) -> (n, l)>],
                   iterator_types = ["parallel", "parallel", "reduction"]}}
    ins(%x, %part : memref<{k}x{kind}>,
                    memref<{n}x{k}x32x{kind}, strided<[{far}, 32, 1], offset: ?>>)
    outs(%y : memref<{n}x32x{kind}>) {{
  ^bb0(%a: {kind}, %b: {kind}, %s: {kind}):
    %m = arith.mulf %a, %b : {kind}
    %r = arith.addf %s, %m : {kind}
    linalg.yield %r : {kind}
  }}
  return
}}"""


def _found_in_row(all_panels: int, n: int, k: int, kind: str, bits: int) -> list[Stream]:
    """Return the streams of a product of a row and ``n`` panels of 32 columns and ``k`` rows.

    The panels are some of ``all_panels`` panels in a buffer of element type ``kind``. Vector
    registers have ``bits`` bits.
    """
    source = ROW.format(all=all_panels, n=n, k=k, kind=kind, far=k * 32)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        (operation,) = [o for o in walk(module.operation) if o.name == "linalg.generic"]
        with ir.InsertionPoint(operation):
            nest = Nest(operation)
            found = find_prefetches(nest, plan_tile(nest.describe(bits, [True])))
            assert all(isinstance(each, Stream) for each in found)
            return [each for each in found if isinstance(each, Stream)]


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize(("kind", "line"), [("f32", 16), ("f64", 8)])
def test_weights_that_are_read_once_are_a_stream(kind: str, line: int, bits: int) -> None:
    (stream,) = _found_in_row(64, 1, 1024, kind, bits)
    assert (stream.ahead, stream.line) == (16 * line, line)


def test_more_streams_are_prefetched_at_shorter_distances() -> None:
    (stream,) = _found_in_row(64, 8, 1024, "f32", 512)
    assert 16 <= stream.ahead < 256


@pytest.mark.parametrize(("all_panels", "k"), [(16, 1024), (512, 64)])
def test_streams_that_caches_hold_are_not_prefetched(all_panels: int, k: int) -> None:
    """Neither small buffers nor panels of a few KiB are prefetched as streams."""
    assert not _found_in_row(all_panels, 1, k, "f32", 512)

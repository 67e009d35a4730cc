"""Emits the steps of a convolution by Winograd's minimal filtering as contractions on tensors.

A tile of m x m results reads r x r elements of the image. There are three steps: transform the rows
and columns of each tile; multiply tiles by weights and sum over the channels, separately for each
of the r x r elements; transform the sums to results. For each of the r x r elements, the values of
all tiles of an image are contiguous, so that the multiplication reads long rows.

In shapes, N is the count of images, C and K are counts of input and output channel blocks, L is the
count of channels in a block, T and S are the counts of rows and columns of tiles. A grouped
convolution has the count of groups, G, as second dimension of images, tiles, sums and results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rammer_mlir.bindings import arith, ir, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, rename_operands
from rammer_mlir.passes.ir.constants import Matrix
from rammer_mlir.passes.ir.generics import indexing_maps, sum_of_products
from rammer_mlir.passes.ir.structured import Structured, shape_of
from rammer_mlir.passes.winograd.filtering import Filtering


def transform_image(image: ir.Value, filtering: Filtering) -> ir.Value:
    """Emit and return the transformed tiles of an image [N, C, H, W, L].

    N is the number of images, C the number of channel blocks, L the channels of a block. A tile has
    r x r elements and begins ``filtering.outputs`` rows or columns after the previous tile. The
    result is [N, C, r, r, T, S, L], with T rows and S columns of tiles.
    """
    size, outputs = filtering.size, filtering.outputs
    *around, c, height, width, lanes = shape_of(image)
    g = _group(around)
    rows, columns = ((extent - size) // outputs + 1 for extent in (height, width))
    return contract(
        f"n, {g}c, t, s, a, b, l | i, j",
        [
            (_matrix(filtering.data), "a, i"),
            (_matrix(filtering.data), "b, j"),
            (image, f"n, {g}c, {outputs} * t + i, {outputs} * s + j, l"),
        ],
        f"n, {g}c, a, b, t, s, l",
        [*around, c, size, size, rows, columns, lanes],
    )


def multiply_tiles(tiles: ir.Value, weight: ir.Value) -> ir.Value:
    """Emit and return the sums over channels of the products of transformed tiles and weights.

    Tiles [N, C, r, r, T, S, L] and weights [r, r, K, C, L, L] give [N, K, r, r, T, S, L]: N images
    with T rows and S columns of tiles of r x r elements; C input and K output blocks of L channels.
    With G groups, the weights are [r, r, G, K, C, L, L].
    """
    *around, _, size, _, rows, columns, lanes = shape_of(tiles)
    g = _group(around)
    filters = shape_of(weight)[-4]
    return contract(
        f"a, b, n, {g}k, t, s, l | c, m",
        [
            (tiles, f"n, {g}c, a, b, t, s, m"),
            (weight, f"a, b, {g}k, c, m, l"),
        ],
        f"n, {g}k, a, b, t, s, l",
        [*around, filters, size, size, rows, columns, lanes],
    )


def transform_sums(sums: ir.Value, filtering: Filtering) -> ir.Value:
    """Emit the inverse transform of sums; return the results.

    Sums are [N, K, r, r, T, S, L], results are [N, K, T, m, S, m, L], for N images and K blocks of
    L channels. There are T rows and S columns of tiles, each of m x m results from r x r sums;
    ``filtering`` determines m and r.
    """
    outputs = filtering.outputs
    *around, filters, _, _, rows, columns, lanes = shape_of(sums)
    g = _group(around)
    return contract(
        f"n, {g}k, t, i, s, j, l | a, b",
        [
            (_matrix(filtering.inverse), "i, a"),
            (_matrix(filtering.inverse), "j, b"),
            (sums, f"n, {g}k, a, b, t, s, l"),
        ],
        f"n, {g}k, t, i, s, j, l",
        [*around, filters, rows, outputs, columns, outputs, lanes],
    )


def _group(around: Sequence[int]) -> str:
    """Return the text ``"g, "``, the letter of the loop over groups; an empty text without groups.

    The text is a part of an index expression for ``contract``. ``around`` lists the sizes of the
    dimensions before the channels: images, and groups if any.
    """
    return "g, " if len(around) > 1 else ""


def _matrix(rows: Matrix) -> ir.Value:
    value = ir.DenseElementsAttr.get(np.array(rows, dtype=np.float32))
    return arith.constant(value.type, value)


def contract(
    loops: str,
    operands: Sequence[tuple[ir.Value, str]],
    result: str,
    shape: Sequence[int],
) -> ir.Value:
    """Emit a sum of products of f32, and return the result of shape ``shape``.

    For a matrix product, ``loops`` is ``i, j | k``, the factors have the texts ``i, k`` and
    ``k, j``, and ``result`` is ``i, j``.

    Args:
        loops: a letter for each parallel loop, a bar, and a letter for each reduction loop.
        operands: the factors, each with the index expressions of its dimensions in these letters.
        result: the index expressions of the result's dimensions.
        shape: the shape of the result.
    """
    outer, summed = loops.split(" | ")
    parallel = [each for each, some in ((True, outer), (False, summed)) for _ in some.split(",")]
    texts = [
        f"affine_map<({outer}, {summed}) -> ({subscripts})>"
        for subscripts in (*(text for _, text in operands), result)
    ]
    maps = [ir.AffineMapAttr(ir.Attribute.parse(text)).value for text in texts]
    return sum_of_products([value for value, _ in operands], maps, parallel, shape)


def follow(
    op: Structured, operands: Sequence[ir.Value], shape: Sequence[int], mapping: ValueMap
) -> list[ir.Value]:
    """Emit an operation of a convolution's epilogue in tiles; return its results.

    The original operation has the loops [n, k, h, w, l], in blocks of channels. The emitted
    operation has the loops [n, k, t, i, s, j, l]: h is row i of the tiles in row t, and w is column
    j of the tiles in column s.

    Args:
        op: the original elementwise operation.
        operands: the inputs of the emitted operation; inputs with rows and columns are in tiles.
        shape: the shape of the result in tiles.
        mapping: the new value for each value that the body of ``op`` captures.
    """
    outputs = [
        tensor.EmptyOp(list(shape), ir.RankedTensorType(value.type).element_type).result
        for value in op.op.operation.results
    ]
    copy = op.op.operation.clone().operation
    rename_operands(copy, mapping)
    for position, value in enumerate([*operands, *outputs]):
        copy.operands[position] = value
    loops = [ir.AffineExpr.get_dim(dim) for dim in range(len(shape))]
    split = [*([loop] for loop in loops[:-5]), loops[-5:-3], loops[-3:-1], loops[-1:]]
    maps = [
        ir.AffineMap.get(
            len(loops), 0, [e for expr in map_.results for e in split[_position(expr)]]
        )
        for map_ in op.maps
    ]
    copy.attributes["indexing_maps"] = indexing_maps(maps)
    kinds = list(ir.ArrayAttr(copy.attributes["iterator_types"]))
    copy.attributes["iterator_types"] = ir.ArrayAttr.get([*kinds, *kinds[:2]])
    for result, output in zip(copy.results, outputs, strict=True):
        result.set_type(output.type)
    return list(copy.results)


def _position(expr: ir.AffineExpr) -> int:
    assert isinstance(expr, ir.AffineDimExpr)
    return expr.position

"""Tests that stores of converted elements write no byte outside of the output, for any size."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import compile_kernel
from numpy.typing import DTypeLike

_GUARD = 64
_TYPES: dict[str, DTypeLike] = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f32": np.float32,
    "f64": np.float64,
}
_CONVERSIONS = [
    ("arith.trunci", "i64", "i8"),
    ("arith.trunci", "i64", "i32"),
    ("arith.trunci", "i32", "i16"),
    ("arith.fptosi", "f32", "i8"),
    ("arith.truncf", "f64", "f32"),
    ("arith.extsi", "i8", "i64"),
]
_COLUMNS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129]


@pytest.mark.parametrize("dynamic", [None, 0, 1])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("operation", "source", "target"), _CONVERSIONS)
def test_only_the_output_is_written(
    operation: str, source: str, target: str, transposed: bool, dynamic: int | None
) -> None:
    """A conversion writes all elements of the output, and no byte outside of it.

    Dimension ``dynamic`` of the output has a size that is known at run time only; None if all sizes
    are known.
    """
    body = f"{operation} %a : {source} to {target}"
    for shape in ((rows, columns) for rows in (1, 2, 3, 5) for columns in _COLUMNS):
        x = np.random.default_rng(0).integers(-100, 100, shape).astype(_TYPES[source])
        whole = np.full(x.size + 2 * _GUARD, 77, _TYPES[target])
        y = whole[_GUARD:-_GUARD].reshape(shape)
        kernel = compile_kernel(_kernel(body, (source, target), shape, transposed, dynamic))
        kernel(0, np.ascontiguousarray(x.T) if transposed else x, y)
        np.testing.assert_array_equal(y, x.astype(_TYPES[target]), str(shape))
        assert (whole[:_GUARD] == 77).all() and (whole[-_GUARD:] == 77).all(), shape


def _kernel(
    body: str,
    types: tuple[str, str],
    shape: tuple[int, int],
    transposed: bool,
    dynamic: int | None,
) -> str:
    known = [str(size) for size in shape]
    sizes = ["%n" if dim == dynamic else size for dim, size in enumerate(known)]
    tile = ["?" if dim == dynamic else size for dim, size in enumerate(known)]
    order = -1 if transposed else 1
    reads = "(i, j) -> (j, i)" if transposed else "(i, j) -> (i, j)"
    whole_x = f"memref<{'x'.join([*known[::order], types[0]])}>"
    whole_y = f"memref<{'x'.join([*known, types[1]])}>"
    x = f"memref<{'x'.join([*tile[::order], types[0]])}, strided<[{known[::order][1]}, 1]>>"
    y = f"memref<{'x'.join([*tile, types[1]])}, strided<[{known[1]}, 1]>>"
    most = known[dynamic or 0]
    return f"""
func.func private @k(%id: index, %x: {whole_x}, %y: {whole_y}) {{
  %n = affine.min affine_map<(d0) -> ({most}, {most} + 8 - d0 * 8)>(%id)
  %in = memref.subview %x[0, 0] [{", ".join(sizes[::order])}] [1, 1] : {whole_x} to {x}
  %out = memref.subview %y[0, 0] [{", ".join(sizes)}] [1, 1] : {whole_y} to {y}
  linalg.generic {{indexing_maps = [affine_map<{reads}>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}}
      ins(%in : {x}) outs(%out : {y}) {{
  ^bb0(%a: {types[0]}, %b: {types[1]}):
    %c = {body}
    linalg.yield %c : {types[1]}
  }}
  return
}}"""

"""Symbolic dimensions of inputs: bound once by name, and reported all at once."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from rammer_mlir.errors import ShapeError
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.prepare import prepare
from rammer_mlir.frontends.onnx.tensors import static_shape

DECODER = """<ir_version:8, opset_import:["":17]>
    g (float[b,t,8] x, float[b,past,8] k, float[b,past,8] v)
      => (float[b,total,8] new_k, float[b,total,8] new_v)
    { new_k = Concat<axis=1>(k, x)
      new_v = Concat<axis=1>(v, x) }"""


def input_shapes(**shapes: tuple[int, ...]) -> list[list[int] | None]:
    model = prepare(load(onnx.parser.parse_model(DECODER)), shapes)
    return [static_shape(value) for value in model.inputs]


def test_a_symbol_is_bound_wherever_it_stands() -> None:
    assert input_shapes(x=(1, 2, 8), k=(1, 3, 8)) == [[1, 2, 8], [1, 3, 8], [1, 3, 8]]


def test_a_shape_of_its_own_goes_before_a_symbol() -> None:
    shapes = input_shapes(x=(1, 2, 8), k=(1, 3, 8), v=(1, 5, 8))
    assert shapes == [[1, 2, 8], [1, 3, 8], [1, 5, 8]]


def test_what_is_open_is_named_once_and_whole() -> None:
    with pytest.raises(ShapeError) as error:
        input_shapes()
    assert str(error.value) == (
        "input 'x': dimension 0 ('b') is unknown: give the shape with --shape x=N,N,8 "
        "--shape k=N,N,8"
    )
    with pytest.raises(ShapeError, match=r"'past'.* with --shape k=1,N,8$"):
        input_shapes(x=(1, 2, 8))


def test_a_symbol_of_two_sizes_binds_nothing_else() -> None:
    with pytest.raises(ShapeError, match=r"input 'v': dimension 0 \('b'\)"):
        input_shapes(x=(1, 2, 8), k=(2, 3, 8))

"""Tests that nodes with constant inputs are folded, unless the result would be too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from node_checks import Array, expected_outputs, floats, node_model
from onnx import helper

import rammer_mlir
from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.prepare import prepare


def parsed(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version:8, opset_import:["":{opset}]> {text}')


def prepared(text: str, opset: int = 21) -> Model:
    return prepare(load(parsed(text, opset)))


def operators(model: Model) -> list[str]:
    return [node.op_type for node in model.graph.node]


def check(model: onnx.ModelProto, **feeds: Array) -> None:
    expected = expected_outputs(model, feeds)
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        found = executable.run(feeds)
    for name, value in expected.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("LpNormalization", [floats(4, 5)], {"axis": -1, "p": 1}),
        ("LRN", [floats(1, 8, 3, 3)], {"size": 3, "alpha": 0.01, "beta": 0.5, "bias": 2.0}),
        ("ConvTranspose", [floats(1, 2, 5), floats(2, 1, 3), floats(2)], {"group": 2}),
        ("MaxPool", [floats(2, 3, 6)], {"kernel_shape": [3], "pads": [2, 0], "ceil_mode": 1}),
        (
            "AveragePool",
            [floats(1, 2, 5, 12)],
            {"kernel_shape": [3, 3], "pads": [2, 1, 0, 0], "strides": [1, 3], "ceil_mode": 1},
        ),
        (
            "LpPool",
            [floats(1, 2, 9, 23)],
            {"kernel_shape": [3, 3], "strides": [3, 2], "pads": [1, 1, 1, 0], "ceil_mode": 1},
        ),
        ("GlobalMaxPool", [floats(4, 8, 3)], {}),
        ("Softmax", [floats(4, 8)], {"axis": 0}),
        ("LayerNormalization", [floats(4, 8), floats(8)], {}),
    ],
)
def test_operators_on_constants_compute_what_they_do_on_inputs(
    operator: str, inputs: list[Array], attributes: dict[str, Any]
) -> None:
    single = node_model(operator, inputs, constants=range(len(inputs)), **attributes)
    result = single.graph.output[0]
    addition = helper.make_node("Add", ["zero", result.name], ["sum"])
    single.graph.node.append(addition)
    single.graph.input.append(helper.make_tensor_value_info("zero", 1, [1]))
    result.name = "sum"
    check(single, zero=np.zeros(1, "f4"))


@pytest.mark.parametrize("columns", [8, 512, 513, 1024, 4000])
def test_indices_of_any_size_are_folded(columns: int) -> None:
    model = prepared(
        f"""g (float[2,{columns}] x) => (float[M,N] y)
        <int64 zero={{0}}, int64 one={{1}}, int64 two={{2}}, int64 n={{{columns}}},
         int64[1] last={{1}}, int64[1] flat={{-1}}>
        {{ rows = Range(zero, two, one)
           starts = Mul(rows, n)
           column = Unsqueeze(starts, last)
           line = Range(zero, n, one)
           places = Add(column, line)
           all = Reshape(x, flat)
           y = Gather(all, places) }}"""
    )
    assert operators(model) == ["Reshape", "Gather"]


def test_what_decides_about_a_shape_is_folded_however_large() -> None:
    """Large constants are folded if they determine a shape.

    Here, millions of elements are reduced to one number, the end of a Slice.
    """
    model = prepared(
        """g (float[4000000] x) => (float[N] y)
        <int64 zero={0}, int64 one={1}, int64 n={3000000}, int64[1] first={0}>
        { all = Range(zero, n, one)
          even = Add(all, all)
          last = ReduceMax<keepdims=1>(even)
          half = Div(last, one)
          y = Slice(x, first, half) }"""
    )
    assert operators(model) == ["Slice"]
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 4000000


def test_large_results_are_computed_at_run_time() -> None:
    """A constant mask of 16 MB is computed at run time; its operand of 4 MB is folded."""
    text = """g (float[2048,2048] x) => (float[2048,2048] y)
        <int64 zero={0}, int64 one={1}, int64 n={2048}, int64[1] last={1}, float low={-9.0},
         float none={0.0}>
        { line = Range(zero, n, one)
          column = Unsqueeze(line, last)
          late = Greater(line, column)
          mask = Where(late, low, none)
          y = Add(x, mask) }"""
    model = prepared(text)
    assert operators(model) == ["Where", "Add"]
    check(parsed(text), x=floats(2048, 2048))


def test_repeated_elements_are_not_stored() -> None:
    model = prepared(
        """g (float[9,4000] x) => (float[9,4000] y) <int64[2] n={9,4000}>
        { ones = ConstantOfShape<value = float[1] {1.0}>(n)
          y = Sub(x, ones) }"""
    )
    assert operators(model) == ["ConstantOfShape", "Sub"]


def test_quantized_filters_become_numbers() -> None:
    text = """g (float[1,32,5,5] x) => (float[1,64,3,3] y)
        <float scale={0.5}, int64[4] n={64,32,3,3}>
        { w = ConstantOfShape<value = int8[1] {3}>(n)
          wide = DequantizeLinear(w, scale)
          y = Conv(x, wide) }"""
    assert "DequantizeLinear" not in operators(prepared(text))
    x = floats(1, 32, 5, 5)
    with rammer_mlir.compile(parsed(text), num_veus=1, cache=False) as executable:
        found = executable.run({"x": x})["y"]
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    sums = windows.sum((1, 4, 5))
    expected = np.broadcast_to(1.5 * sums[:, None], found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_quantized_filters_that_others_read_stay_quantized() -> None:
    text = """g (float[1,32,5,5] x) => (float[1,64,3,3] y, float[64,32,3,3] wide)
        <float scale={0.5}, int64[4] n={64,32,3,3}>
        { w = ConstantOfShape<value = int8[1] {3}>(n)
          wide = DequantizeLinear(w, scale)
          y = Conv(x, wide) }"""
    assert "DequantizeLinear" in operators(prepared(text))


def test_large_quantized_weights_stay_quantized() -> None:
    text = """g (float[1,64] x) => (float[1,64] y) <float scale={0.5}, int64[2] n={64,64}>
        { w = ConstantOfShape<value = int8[1] {3}>(n)
          wide = DequantizeLinear(w, scale)
          y = MatMul(x, wide) }"""
    assert "DequantizeLinear" in operators(prepared(text))
    x = np.abs(floats(1, 64))
    with rammer_mlir.compile(parsed(text), num_veus=1, cache=False) as executable:
        np.testing.assert_allclose(executable.run({"x": x})["y"], x @ np.full((64, 64), 1.5), 1e-4)


def test_weights_are_stored_once() -> None:
    """An Identity of a weight adds no copy of it; exporters write it for shared weights."""
    weight = helper.make_tensor("w", 1, [64, 64], floats(64, 64).tobytes(), raw=True)
    model = parsed(
        """g (float[1,64] x) => (float[1,64] y)
        { same = Identity(w)
          a = MatMul(x, w)
          y = MatMul(a, same) }"""
    )
    model.graph.initializer.append(weight)
    assert list(prepare(load(model)).weights) == ["w"]


@pytest.mark.parametrize("length", [3, 3000])
def test_outputs_may_be_constants(length: int) -> None:
    text = f"""g (float[2] x) => (int64[N] y, float[2] z, int64[M] s)
        <int64 zero={{0}}, int64 one={{1}}, int64 n={{{length}}}>
        {{ y = Range(zero, n, one)
           s = Shape(y)
           z = Relu(x) }}"""
    check(parsed(text), x=floats(2))


def test_choices_and_loops_on_constants_are_resolved() -> None:
    text = """g (float[4] x) => (float[N] y)
        <int64 two={2}, int64 three={3}, int64 zero={0}>
        { is_less = Less(two, three)
          goes_on = Not(is_less)
          again = Not(goes_on)
          rounds = Add(two, three)
          y = Loop(rounds, again, x) <body = b (int64 i, bool c, float[4] a) => (bool d, float[4] e)
            { more = Add(two, three)
              d = Less(two, more)
              step = Cast<to=1>(more)
              e = Add(a, step) }> }"""
    model = prepared(text)
    assert set(operators(model)) == {"Add"}
    check(parsed(text), x=floats(4))


def test_folding_inside_of_branches_sees_their_own_names() -> None:
    """Values of equal names in two branches of an If are folded separately."""
    text = """g (float[4] x, bool c) => (float[4] y) <float two={2.0}, float three={3.0}>
        { y = If(c) <
            then_branch = a () => (float[4] r) { k = Add(two, three)
                                                 r = Mul(x, k) },
            else_branch = b () => (float[4] s) { k = Mul(two, three)
                                                 s = Mul(x, k) }> }"""
    for choice in (True, False):
        check(parsed(text), x=floats(4), c=np.array(choice))


def test_invalid_constant_operands_are_named() -> None:
    with pytest.raises(ModelError, match=r"'Gather:i' \(Gather\).*found 7"):
        prepared(
            """g (float[9] x) => (float[N] y) <int64[3] t={1,2,3}, int64[1] at={7}>
            { i = Gather(t, at)
              y = Gather(x, i) }"""
        )


def test_scattering_to_many_known_places_is_a_selection() -> None:
    """ScatterND with constant indices becomes a Gather and a Where.

    If several updates have the same index, the last update is the result.
    """
    random = np.random.default_rng(0)
    places = random.integers(-20, 20, (700, 2))
    places[:, 0] = places[:, 0] % 13
    data, updates = floats(20, 20, 3), floats(700, 3, seed=1)
    model = node_model("ScatterND", [data, places, updates], constants=[1])
    expected = data.copy()
    for place, update in zip(places, updates, strict=True):
        expected[tuple(place)] = update
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        found = executable.run({"in0": data, "in2": updates})["out0"]
    np.testing.assert_array_equal(found, expected)
    assert operators(prepare(load(model))) == ["Gather", "Where"]


@pytest.mark.parametrize("order", ["as they are", "shuffled"])
def test_scattering_to_all_places_needs_no_old_values(order: str) -> None:
    places = np.stack(np.meshgrid(np.arange(40), np.arange(30), indexing="ij"), -1).reshape(-1, 2)
    if order == "shuffled":
        np.random.default_rng(0).shuffle(places)
    inputs = [floats(40, 30), places, floats(1200)]
    model = node_model("ScatterND", inputs, constants=[1])
    feeds = {"in0": inputs[0], "in2": inputs[2]}
    check(model, **feeds)
    kept = operators(prepare(load(model)))
    assert kept == (["Reshape"] if order == "as they are" else ["Gather"])


def test_a_model_of_constants_alone_agrees_with_onnx_runtime() -> None:
    text = """g () => (float[N] y) <int64 zero={0}, int64 one={1}, int64 n={9}>
        { a = Range(zero, n, one)
          b = Cast<to=1>(a)
          y = Softmax(b) }"""
    check(parsed(text))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", [np.inf, -np.inf, 1e-30, 1e30, np.nan, 0.0, -2.5])
@pytest.mark.parametrize("operator", ["Mul", "Div"])
def test_extreme_factors_give_the_results_of_each_operator(operator: str, factor: float) -> None:
    """Factors by which weights would leave the range of f32 are not folded into a convolution.

    ONNX Runtime folds them, so that it multiplies infinity by weights of zero.
    """
    weight, x = floats(4, 3, 3, 3), floats(1, 3, 6, 6)
    weight[0, 0] = 0
    model = parsed(
        f"""g (float[1,3,6,6] x) => (float[1,4,4,4] y)
        {{ a = Conv (x, w) b = {operator} (a, s) c = Add (b, t) y = Relu (c) }}"""
    )
    for name, value in (("w", weight), ("s", np.float32(factor)), ("t", np.float32(-1.5))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).astype(np.float64)
    sums = np.einsum("nchwij,ocij->nohw", windows, weight.astype(np.float64))
    with np.errstate(all="ignore"):
        scaled = sums * factor if operator == "Mul" else sums / factor
        expected = np.maximum(scaled.astype(np.float32) + np.float32(-1.5), 0)
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        np.testing.assert_allclose(executable(x), expected, rtol=1e-4, atol=1e-4)


def test_small_numbers_are_true() -> None:
    numbers = np.array([1e-300, -1e-300, 0.0, np.nan])
    model = parsed("g () => (bool[4] y) { y = Cast<to=9> (x) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "x"))
    check(model)


def test_remainders_of_floats_have_the_divisors_sign() -> None:
    """Since opset 28, ``fmod=0`` is defined for floats."""
    x, y = np.array([-5.5, 5.5], np.float32), np.array([2, -2], np.float32)
    model = onnx.parser.parse_model("""<ir_version: 13, opset_import: ["": 28]>
      g (float[2] z) => (float[2] r) <float[2] x = {-5.5, 5.5}, float[2] y = {2.0, -2.0}> {
        m = Mod(x, y)  r = Add(m, z) }""")
    with rammer_mlir.compile(model, cache=False, num_veus=1) as made:
        found = made.run({"z": np.zeros(2, np.float32)})["r"]
    np.testing.assert_array_equal(found, np.mod(x, y))

"""Tests that the readings of ONNX operators describe the operators' results.

A reading is the recognized meaning of an operation that the front end writes. NumPy computes the
output from the readings alone, and the tests compare it with ONNX Runtime's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from graphs import GENERAL, graph_of, readings_of, values_of
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from oracle import compute

from rammer_mlir.benchmarks.models.registry import MODELS
from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import is_cloned
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.reading_kinds import check_kind

Array = NDArray[Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def number(value: float) -> Array:
    return np.array(value, np.float32)


def node_model(
    operator: str, inputs: Sequence[Array], constants: Sequence[Array], **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node, whose operands are inputs, followed by ``constants``."""
    names = [f"x{n}" for n in range(len(inputs))]
    weights = [f"w{n}" for n in range(len(constants))]
    node = helper.make_node(operator, [*names, *weights], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, a.shape)
            for n, a in zip(names, inputs, strict=True)
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.asarray(c), n)
            for n, c in zip(weights, constants, strict=True)
        ],
    )
    opset = helper.make_opsetid("", 20)
    return helper.make_model(graph, opset_imports=[opset], ir_version=9)


def evaluated(model: onnx.ModelProto, inputs: Sequence[Array]) -> tuple[list[Reading], Array]:
    """Return a model's readings, and its output as computed from the readings alone.

    Fills and reshapes of weights are left out of the returned readings.
    """
    module, constants = graph_of(model)
    readings = readings_of(module)
    values = values_of(module, constants)
    block = entry_block(module)
    values.update(zip(block.arguments, inputs, strict=False))
    for reading in readings:
        arrays = [values[operand.value] for operand in reading.inputs]
        value = compute(reading, arrays)
        assert value.shape == reading.output.shape
        values[reading.output.value] = value
    result = list(block.operations)[-1].operation.operands[0]
    others = [r for r in readings if r.kind != "fill" and not _is_of_weight(r)]
    return others, values[result]


def _is_of_weight(reading: Reading) -> bool:
    """Return whether a reading reshapes a weight, as for convolutions with windows of size 1."""
    return reading.kind == "reshape" and reading.inputs[0].is_constant


def check(kinds: str, operator: str, inputs: Sequence[Array], *constants: Array, **a: Any) -> Any:
    """Check the kinds of a node's readings, and the output that NumPy computes from the readings.

    ``kinds`` has the expected kinds, separated by spaces; the expected output is ONNX Runtime's.
    Returns the attributes of the first reading.
    """
    model = node_model(operator, inputs, constants, **a)
    readings, found = evaluated(model, inputs)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected: Any = session.run(None, {f"x{n}": array for n, array in enumerate(inputs)})[0]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    assert " ".join(reading.kind for reading in readings) == kinds
    return readings[0].attributes


IMAGE = normal(2, 4, 9, 10)


def test_convolution_with_strides_dilation_pads_and_bias() -> None:
    a = check(
        "conv2d add", "Conv", [IMAGE], normal(6, 4, 3, 2), normal(6),
        strides=[2, 1], dilations=[1, 2], pads=[1, 2, 0, 1],
    )  # fmt: skip
    assert (a["kernel"], a["strides"], a["dilations"]) == ((3, 2), (2, 1), (1, 2))
    assert (a["pads"], a["groups"]) == ((1, 2, 0, 1), 1)
    assert (a["layout"], a["weight_layout"], a["output_layout"]) == ("NCHW", "FCHW", "NFHW")


@pytest.mark.parametrize(
    ("kernel", "weights", "more"),
    [
        ((1, 1), "FC", {}),
        ((1, 1), "FC", {"strides": [2, 3]}),
        ((1, 1), "FC", {"pads": [1, 1, 1, 1]}),
        ((1, 3), "FCW", {}),
        ((3, 1), "FCH", {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
        ((9, 10), "FCHW", {}),
        ((2, 3), "FCHW", {"dilations": [3, 2]}),
    ],
)
def test_convolutions_of_odd_windows(kernel: tuple[int, int], weights: str, more: Any) -> None:
    a = check("conv2d", "Conv", [IMAGE], normal(6, 4, *kernel), **more)
    assert (a["kernel"], a["weight_layout"]) == (kernel, weights)
    assert a["strides"] == tuple(more.get("strides", (1, 1)))
    assert a["pads"] == tuple(more.get("pads", (0, 0, 0, 0)))


def test_convolutions_of_one_and_three_dimensions() -> None:
    a = check("conv1d", "Conv", [normal(2, 4, 11)], normal(6, 4, 3), strides=[2], pads=[1, 1])
    assert (a["layout"], a["pads"]) == ("NCW", (1, 1))
    a = check("conv3d", "Conv", [normal(1, 2, 5, 6, 7)], normal(3, 2, 3, 2, 3), pads=[1] * 6)
    assert (a["layout"], a["weight_layout"]) == ("NCDHW", "FCDHW")


@pytest.mark.parametrize("more", [{}, {"pads": [1, 1, 1, 1]}, {"strides": [2, 1]}])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 1)])
def test_convolutions_in_groups_are_read_through_their_reshapes(kernel: Any, more: Any) -> None:
    a = check("conv2d", "Conv", [IMAGE], normal(6, 2, *kernel), group=2, **more)
    assert (a["groups"], a["layout"], a["output_layout"]) == (2, "NCHW", "NFHW")
    assert a["pads"] == tuple(more.get("pads", (0, 0, 0, 0)))
    b = normal(6)
    a = check("conv2d add reshape", "Conv", [IMAGE], normal(6, 2, *kernel), b, group=2, **more)
    assert (a["groups"], a["layout"], a["output_layout"]) == (2, "NCHW", "NGFHW")
    assert a["pads"] == tuple(more.get("pads", (0, 0, 0, 0)))


def test_depthwise_convolutions() -> None:
    a = check("depthwise_conv2d", "Conv", [IMAGE], normal(4, 1, 3, 3), group=4, pads=[1, 0, 1, 0])
    assert (a["groups"], a["weight_layout"], a["pads"]) == (4, "GHW", (1, 0, 1, 0))
    a = check("depthwise_conv2d", "Conv", [IMAGE], normal(8, 1, 3, 3), group=4, strides=[2, 2])
    assert (a["groups"], a["weight_layout"], a["output_layout"]) == (4, "GFHW", "NFHW")


def test_an_image_of_one_channel() -> None:
    a = check("reshape conv2d", "Conv", [normal(1, 1, 6, 7)], normal(3, 1, 3, 3))
    assert a == {}


def test_matrix_products() -> None:
    a = check("matmul", "MatMul", [normal(5, 7)], normal(7, 3))
    assert (a["transpose_a"], a["transpose_b"]) == (False, False)
    a = check("matmul add", "Gemm", [normal(7, 5)], normal(3, 7), normal(3), transA=1, transB=1)
    assert (a["transpose_a"], a["transpose_b"]) == (True, True)
    check("batch_matmul", "MatMul", [normal(2, 3, 5, 7), normal(2, 3, 7, 4)])
    check("reshape matmul reshape", "MatMul", [normal(2, 5, 7)], normal(7, 3))


def test_multiplications_are_counted() -> None:
    module, _ = graph_of(node_model("Conv", [IMAGE], [normal(6, 2, 3, 3)], group=2))
    (reading,) = [r for r in readings_of(module) if r.kind == "conv2d"]
    assert reading.macs == 2 * 6 * 7 * 8 * 2 * 9


@pytest.mark.parametrize(
    "more",
    [
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        {"kernel_shape": [3, 3], "dilations": [2, 3]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [1, 3]},
        {"kernel_shape": [3, 1], "strides": [2, 2]},
    ],
)
def test_maximum_pooling(more: Any) -> None:
    a = check("max_pool", "MaxPool", [IMAGE], **more)
    assert (a["kernel"], a["layout"]) == (tuple(more["kernel_shape"]), "NCHW")


def test_average_pooling_counts_padding_or_not() -> None:
    shape = {"kernel_shape": [3, 2], "strides": [2, 1]}
    assert check("average_pool", "AveragePool", [IMAGE], **shape)["count_include_pad"]
    pads = [1, 0, 1, 1]
    a = check("average_pool", "AveragePool", [IMAGE], pads=pads, **shape)
    assert (a["count_include_pad"], a["pads"]) == (False, (1, 0, 1, 1))
    a = check("average_pool", "AveragePool", [IMAGE], pads=pads, count_include_pad=1, **shape)
    assert a["count_include_pad"]


def test_reductions() -> None:
    x = normal(2, 3, 4)
    for name, kind in (
        ("ReduceSum", "reduce_sum"), ("ReduceMean", "reduce_mean"), ("ReduceMax", "reduce_max"),
        ("ReduceMin", "reduce_min"), ("ReduceProd", "reduce_prod"), ("ReduceL1", "reduce_l1"),
        ("ReduceSumSquare", "reduce_sum_square"),
    ):  # fmt: skip
        a = check(kind, name, [x], np.array([0, 2]), keepdims=0)
        assert a["axes"] == (0, 2)
        check(f"{kind} reshape", name, [x], np.array([1]))
    check("reduce_mean reshape", "GlobalAveragePool", [IMAGE])
    check("reduce_max reshape", "GlobalMaxPool", [IMAGE])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_is_one_reading(axis: int) -> None:
    a = check("softmax", "Softmax", [normal(2, 3, 4)], axis=axis)
    assert a["axes"] == (axis % 3,)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_of_a_product_s_rows_is_one_reading(axis: int) -> None:
    """A softmax of a matrix product is a single reading only if its axis is the last.

    The product merges the batch and the rows into one dimension between two reshapes, and a softmax
    along the last axis can be computed between these reshapes, too.
    """
    x, w = normal(2, 5, 16), normal(16, 24, seed=1)
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 20]>
        g (float[2,5,16] x) => (float[2,5,24] y)
        {{ p = MatMul(x, w)
           y = Softmax<axis={axis}>(p) }}"""
    )
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    readings, found = evaluated(model, [x])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected: Any = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    kinds = [reading.kind for reading in readings]
    assert (kinds == ["reshape", "matmul", "softmax", "reshape"]) == (axis == 2)


ACTIVATIONS = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Gelu": "gelu",
    "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish", "LeakyRelu": "leaky_relu",
    "Elu": "elu", "Softplus": "softplus", "Mish": "mish", "Softsign": "softsign", "Exp": "exp",
    "Neg": "neg", "Abs": "abs", "Reciprocal": "reciprocal", "Floor": "floor", "Selu": "elementwise",
}  # fmt: skip


@pytest.mark.parametrize("operator", ACTIVATIONS)
def test_activations_have_their_names(operator: str) -> None:
    x = np.concatenate([3 * normal(20), np.array([0, -0.0, 5, -5], np.float32)])
    a = check(ACTIVATIONS[operator], operator, [x])
    assert a["indexing"] == ((0,),)


def test_parameters_of_activations() -> None:
    x = 5 * normal(40)
    assert check("leaky_relu", "LeakyRelu", [x], alpha=0.25)["alpha"] == 0.25
    assert check("elu", "Elu", [x], alpha=0.5)["alpha"] == 0.5
    a = check("hard_sigmoid", "HardSigmoid", [x], alpha=0.25, beta=0.125)
    assert (a["alpha"], a["beta"]) == (0.25, 0.125)
    a = check("clip", "Clip", [x], number(-1), number(6))
    assert (a["minimum"], a["maximum"]) == (-1, 6)


@pytest.mark.parametrize(
    ("operator", "kind"),
    [("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Div", "div"), ("Max", "maximum"),
     ("Min", "minimum"), ("PRelu", "prelu")],
)  # fmt: skip
def test_functions_of_two_tensors(operator: str, kind: str) -> None:
    x, y = normal(2, 3, 4), normal(3, 1, seed=1)
    assert check(kind, operator, [x, normal(4, seed=1)])["indexing"] == ((0, 1, 2), (2,))
    assert len(check(kind, operator, [x], y)["indexing"]) == 2


def test_operands_that_are_exchanged_or_numbers() -> None:
    x = normal(2, 3)
    a = check("sub", "Sub", [normal(3), x])
    assert a["indexing"] == ((1,), (0, 1))
    model = node_model("Sub", [x], [number(2.5)])
    (reading,), _ = evaluated(model, [x])
    assert [operand.is_constant for operand in reading.inputs] == [False, True]
    assert [operand.rank for operand in reading.inputs] == [2, 0]


def test_moves_of_elements() -> None:
    x = normal(2, 9, 4)
    a = check("transpose", "Transpose", [x], perm=[2, 0, 1])
    assert a["permutation"] == (2, 0, 1)
    a = check("slice", "Slice", [x], np.array([1]), np.array([8]), np.array([1]), np.array([2]))
    assert (a["offsets"], a["strides"]) == ((0, 1, 0), (1, 2, 1))
    assert check("concat", "Concat", [x, normal(2, 3, 4)], axis=1)["axis"] == 1
    a = check("pad", "Pad", [normal(2, 3)], np.array([0, 1, 2, 0]), number(1.5))
    assert (a["low"], a["high"], a["value"]) == ((0, 1), (2, 0), 1.5)
    check("broadcast", "Expand", [normal(1, 3)], np.array([2, 3]))
    check("reshape", "Flatten", [x])


def test_a_padding_that_several_read_belongs_to_none() -> None:
    x = IMAGE
    weights = [numpy_helper.from_array(normal(3, 4, 3, 3, seed=n), f"w{n}") for n in range(2)]
    nodes = [
        helper.make_node("Conv", ["x", f"w{n}"], [f"y{n}"], pads=[1, 1, 1, 1]) for n in range(2)
    ]
    nodes.append(helper.make_node("Add", ["y0", "y1"], ["y"]))
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    results = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "two", [info], results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    readings, found = evaluated(model, [x])
    assert [reading.kind for reading in readings] == ["pad", "conv2d", "conv2d", "add"]
    expected: Any = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["squeezenet", "depthwise_net", "attention", "gru_bidirectional"])
def test_every_operation_of_a_network_is_read(name: str) -> None:
    model = MODELS[name].build(1, "small")
    weights = {tensor.name for tensor in model.graph.initializer}
    feeds = {
        info.name: normal(*(each.dim_value for each in info.type.tensor_type.shape.dim), seed=n)
        for n, info in enumerate(model.graph.input)
        if info.name not in weights
    }
    module, _ = graph_of(model)
    readings = list(readings_of(module))
    for reading in readings:
        check_kind(reading.kind)
    known = {op for reading in readings for op in reading.operations}
    others = [o for o in list(entry_block(module).operations)[:-1] if o.operation not in known]
    assert all(is_cloned(o) for o in others)
    _, found = evaluated(model, list(feeds.values()))
    expected: Any = ort.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


LAYOUTS = """
#image = affine_map<(n, h, w, f, i, j, c) -> (n, h * 2 + i, w + j * 2, c)>
#kernel = affine_map<(n, h, w, f, i, j, c) -> (i, j, c, f)>
#out = affine_map<(n, h, w, f, i, j, c) -> (n, h, w, f)>
#bimage = affine_map<(n, f, h, w, e, c, i, j, d) -> (n, c, h + i, w + j, d)>
#bkernel = affine_map<(n, f, h, w, e, c, i, j, d) -> (f, c, i, j, d, e)>
#bout = affine_map<(n, f, h, w, e, c, i, j, d) -> (n, f, h, w, e)>
func.func @main(%x: tensor<1x9x8x5xf32>, %k: tensor<3x2x5x6xf32>,
    %b: tensor<1x2x7x7x4xf32>, %l: tensor<3x2x3x3x4x4xf32>)
    -> (tensor<1x4x6x6xf32>, tensor<1x3x5x5x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x6x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %y = linalg.generic {indexing_maps = [#image, #kernel, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel",
                        "reduction", "reduction", "reduction"]}
      ins(%x, %k : tensor<1x9x8x5xf32>, tensor<3x2x5x6xf32>) outs(%f : tensor<1x4x6x6xf32>) {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %s = arith.mulf %q, %p : f32
    %t = arith.addf %s, %r : f32
    linalg.yield %t : f32
  } -> tensor<1x4x6x6xf32>
  %e2 = tensor.empty() : tensor<1x3x5x5x4xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x3x5x5x4xf32>) -> tensor<1x3x5x5x4xf32>
  %z = linalg.generic {indexing_maps = [#bimage, #bkernel, #bout],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                        "reduction", "reduction", "reduction", "reduction"]}
      ins(%b, %l : tensor<1x2x7x7x4xf32>, tensor<3x2x3x3x4x4xf32>)
      outs(%f2 : tensor<1x3x5x5x4xf32>) {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %s = arith.mulf %p, %q : f32
    %t = arith.addf %r, %s : f32
    linalg.yield %t : f32
  } -> tensor<1x3x5x5x4xf32>
  return %y, %z : tensor<1x4x6x6xf32>, tensor<1x3x5x5x4xf32>
}
"""


def test_layouts_come_from_the_maps() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(LAYOUTS)
        run_pipeline(module, f"builtin.module({','.join(GENERAL)})")
        channels_last, blocked = (r for r in readings_of(module) if r.kind == "conv2d")
    a, b = channels_last.attributes, blocked.attributes
    assert (a["layout"], a["weight_layout"], a["output_layout"]) == ("NHWC", "HWCF", "NHWF")
    assert (a["strides"], a["dilations"]) == ((2, 1), (1, 2))
    assert (b["layout"], b["weight_layout"], b["output_layout"]) == ("NCHWc", "FCHWcf", "NFHWf")
    x, k = normal(1, 9, 8, 5), normal(3, 2, 5, 6, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, :, :, :, ::2]
    expected = np.einsum("nhwcij,ijcf->nhwf", windows, k, dtype=np.float64)
    np.testing.assert_allclose(compute(channels_last, [x, k]), expected, rtol=1e-6, atol=1e-6)
    y, m = normal(1, 2, 7, 7, 4, seed=2), normal(3, 2, 3, 3, 4, 4, seed=3)
    windows = np.lib.stride_tricks.sliding_window_view(y, (3, 3), (2, 3))
    expected = np.einsum("nchwdij,fcijde->nfhwe", windows, m, dtype=np.float64)
    np.testing.assert_allclose(compute(blocked, [y, m]), expected, rtol=1e-6, atol=1e-6)

"""Tests that operators on constants are folded to ONNX Runtime's results, over many attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from node_checks import Array, node_model
from onnx import TensorProto, numpy_helper

from rammer_mlir.evaluators.operation import NotFoldableError, Operation
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.frontends.onnx.folding.attributes import attributes_of

RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A test case: a node with constant inputs, which has to be folded.

    Attributes:
        kind: operator.
        inputs: arrays; None for omitted inputs.
        outputs: number of outputs.
        opset: version of ONNX's operators.
        attributes: attributes of the node.
    """

    kind: str
    inputs: Sequence[Array | None]
    outputs: int = 1
    opset: int = 21
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


def case(
    kind: str, *inputs: Array | None, outputs: int = 1, opset: int = 21, **attributes: Any
) -> Case:
    return Case(kind, inputs, outputs, opset, attributes)


def f(*shape: int, kind: str = "f4") -> Array:
    return RANDOM.standard_normal(shape).astype(kind)


def i(*values: Any, kind: str = "i8") -> Array:
    return np.array(values, kind)


def n(*shape: int, low: int = -9, high: int = 9, kind: str = "i8") -> Array:
    return RANDOM.integers(low, high, shape).astype(kind)


def b(*shape: int) -> Array:
    return RANDOM.integers(0, 2, shape).astype(bool)


def scalar(value: float, kind: str = "i8") -> Array:
    return np.array(value, kind)


def elementwise() -> Iterator[Case]:
    odd = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -0.0, 3.7, -3.7], "f4")
    for kind in ("Asin", "Acos", "Atanh"):
        yield case(kind, np.linspace(-0.9, 0.9, 9, dtype="f4"))
    yield case("Acosh", np.linspace(1, 9, 9, dtype="f4"))
    for kind in ("Log", "Sqrt"):
        yield case(kind, np.linspace(0.1, 99, 99, dtype="f4"))
        yield case(kind, np.linspace(0.1, 99, 99))
    yield case("Sqrt", np.array([4, -1, np.inf, 0], "f4"))
    for kind in ("Abs", "Asinh", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Neg",
                 "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Tan", "Tanh",
                 "Identity", "IsNaN"):  # fmt: skip
        yield case(kind, f(3, 5))
        yield case(kind, odd)
    for kind in ("Abs", "Neg", "Sign"):
        yield case(kind, n(7))
        yield case(kind, n(7, kind="i4"))
    yield case("IsNaN", np.array([1, np.nan, np.inf], "f4"))


def arithmetic() -> Iterator[Case]:
    extremes = np.array([1, np.nan, np.inf, -np.inf], "f4")
    yield case("IsInf", extremes)
    yield case("IsInf", extremes, detect_negative=0)
    yield case("IsInf", extremes, detect_positive=0)
    for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        yield case(kind, f(3, 1, 5), f(4, 1))
        yield case(kind, f(3, kind="f8"), f(1, kind="f8"))
        yield case(kind, n(5, 7), n(7, low=1))
        yield case(kind, n(99, kind="i4"), -n(99, low=1, kind="i4"))
    yield case("Div", n(99, low=0, kind="u1"), n(99, low=1, kind="u1"))
    yield case("Div", f(4), np.zeros(4, "f4"))
    yield case("Max", np.array([1, np.nan], "f4"), np.array([np.nan, 2], "f4"))
    for kind in ("Max", "Min", "Mean", "Sum"):
        yield case(kind, f(3, 1), f(4), f(2, 1, 1))
        yield case(kind, f(3))
    yield case("Mod", n(99), n(99, low=1))
    yield case("Mod", n(99), -n(99, low=1))
    yield case("Mod", n(99), -n(99, low=1), fmod=1)
    yield case("Mod", f(99), f(99), fmod=1)
    yield case("Pow", np.abs(f(3, 4)), f(4))
    yield case("Pow", f(5), i(0, 1, 2, 3, -1))
    yield case("Pow", n(5), i(0, 1, 2, 3, 4))
    yield case("Pow", i(1, 2, 3), np.array([2, 3, 0.5], "f4"))


def logic() -> Iterator[Case]:
    for kind in ("And", "Or", "Xor"):
        yield case(kind, b(3, 1, 5), b(4, 1))
    yield case("Not", b(9))
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield case(kind, n(4, 5), n(5))
    yield case("BitwiseNot", n(9, kind="i4"))
    for direction in ("LEFT", "RIGHT"):
        yield case("BitShift", n(9, low=0, kind="u4"), n(9, low=0, kind="u4"), direction=direction)
    for kind in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        yield case(kind, n(5, 9, low=0, high=3), n(9, low=0, high=3))
        yield case(kind, f(5), np.array(np.nan, "f4"))
    yield case("Equal", b(9), b(9))
    yield case("Clip", f(9), scalar(-0.5, "f4"), scalar(0.5, "f4"))
    yield case("Clip", f(9), None, scalar(0.5, "f4"))
    yield case("Clip", n(9), scalar(-2))
    yield case("Clip", n(9), scalar(2), scalar(-2))
    yield case("Where", b(3, 1), f(1, 4), scalar(7, "f4"))


def casts() -> Iterator[Case]:
    floats = np.array([0, -0.0, 0.3, -0.3, 1.7, -1.7, 127, 200.5], "f4")
    for target in ("FLOAT", "DOUBLE", "FLOAT16", "INT32", "INT64", "BOOL"):
        yield case("Cast", floats, to=getattr(TensorProto, target))
        yield case("Cast", n(9, low=-300, high=300), to=getattr(TensorProto, target))
        yield case("Cast", b(9), to=getattr(TensorProto, target))
    for target in ("INT8", "UINT8"):
        yield case("Cast", n(9, low=-300, high=300), to=getattr(TensorProto, target))
    yield case("Cast", np.array([1e5, -1e-8, 0.1], "f8"), to=TensorProto.FLOAT16)
    yield case("CastLike", floats, i(1))


def movement() -> Iterator[Case]:
    tensor = numpy_helper.from_array(np.array([7], "i4"))
    yield case("Constant", value=numpy_helper.from_array(f(3, 2)))
    yield case("Constant", value_ints=[3, 1])
    yield case("Constant", value_float=2.5)
    yield case("ConstantOfShape", i(2, 3))
    yield case("ConstantOfShape", i(2, 0, 3), value=tensor)
    yield case("ConstantOfShape", np.zeros(0, "i8"), value=tensor)
    for bounds in ((0, 9, 2), (9, 0, -2), (3, 3, 1), (5, 2, 1), (0, -7, -3)):
        yield case("Range", *(scalar(x) for x in bounds))
    for bounds in ((0, 1, 0.3), (1, -1, -0.25), (0.5, 4.5, 1)):
        yield case("Range", *(scalar(x, "f4") for x in bounds))
    yield case("EyeLike", n(3, 5), k=1)
    yield case("EyeLike", n(5, 3), k=-2, dtype=TensorProto.FLOAT)
    x = f(2, 3, 4)
    yield case("Shape", x)
    yield case("Shape", x, start=-2, end=-1)
    yield case("Size", x)
    for shape in ((-1, 2), (0, 0, 2, 2), (24,), (4, -1)):
        yield case("Reshape", x, i(*shape))
    yield case("Reshape", f(0, 3), i(3, 0), allowzero=1)
    for axis in (0, 1, 2, 3, -1):
        yield case("Flatten", x, axis=axis)
    yield case("Squeeze", f(1, 2, 1, 3))
    yield case("Squeeze", f(1, 2, 1, 3), i(-2))
    yield case("Unsqueeze", x, i(0, -1))
    yield case("Unsqueeze", x, i(2, 1))
    yield case("Transpose", x)
    yield case("Transpose", x, perm=[1, 2, 0])
    yield case("Concat", x, f(2, 1, 4), axis=-2)
    yield case("Concat", n(3), n(0), n(2), axis=0)
    yield case("Split", f(7, 2), i(3, 0, 4), outputs=3)
    yield case("Split", f(2, 7), outputs=3, axis=-1, num_outputs=3)
    yield case("Split", f(2, 6), outputs=3, axis=1, opset=13)
    yield case("Slice", x, i(0, 1), i(2, 99))
    yield case("Slice", x, i(-1), i(-99), i(-1), i(-2))
    yield case("Slice", x, i(3), i(0), i(2), i(-1))
    yield case("Slice", x, i(-3, 5), i(-1, 9), i(1, 0))
    yield case("Slice", x, i(-99, 0), i(99, -1), i(2, 1), i(3, 1))
    yield case("Expand", f(3, 1), i(2, 1, 4))
    yield case("Expand", f(3, 4), i(1, 1))
    yield case("Expand", f(3, 1), i(3, 0))
    yield case("Tile", x, i(2, 1, 3))
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield case("Pad", x, i(0, 1, 2, 0, 1, 1), mode=mode)
        yield case("Pad", x, i(1, 2), None, i(-1), mode=mode)
    yield case("Pad", x, i(0, -1, 2, 0, 1, -1), scalar(7, "f4"))
    for upper in (0, 1):
        yield case("Trilu", f(2, 4, 5), upper=upper)
        for k in (-2, 1, 9):
            yield case("Trilu", n(4, 3), scalar(k), upper=upper)
    yield case("Trilu", b(4, 4), upper=1)


def indexing() -> Iterator[Case]:
    x = f(4, 5, 3)
    yield case("Gather", x, n(2, 2, low=-4, high=4))
    yield case("Gather", x, scalar(-1), axis=1)
    yield case("GatherElements", x, n(2, 5, 3, low=-4, high=4))
    yield case("GatherElements", x, n(4, 2, 1, low=-5, high=5), axis=1)
    yield case("GatherElements", x, n(4, 5, 9, low=-3, high=3), axis=-1)
    yield case("GatherND", x, n(6, 2, low=-4, high=4))
    yield case("GatherND", x, n(4, 2, low=-3, high=3), batch_dims=1)
    yield case("GatherND", x, n(4, 5, 7, 1, low=-3, high=3), batch_dims=2)
    yield case("GatherND", x, n(4, 2, 1, low=-5, high=5), batch_dims=1)
    places = np.argsort(f(4, 5, 3), 1)[:, :2, :2]
    for reduction in ("none", "add", "mul", "min", "max"):
        yield case("ScatterElements", x, places, f(4, 2, 2), axis=1, reduction=reduction)
        yield case("ScatterND", x, i([0, 1], [-1, 2], [3, 0]), f(3, 3), reduction=reduction)
    yield case("ScatterElements", f(9), i(1, 1, -1), f(3), reduction="add")
    yield case("ScatterND", f(9), i([1], [1], [8]), f(3), reduction="mul")
    yield case("ScatterND", f(2, 3), np.zeros((0, 1), "i8"), f(0, 3))
    yield case("Scatter", f(3, 3), n(2, 3, low=0, high=1), f(2, 3), opset=10)
    for axis in (-1, 0, 1):
        yield case("OneHot", n(2, 3, low=-5, high=5), scalar(4), f(2), axis=axis)
    yield case("OneHot", n(3, low=0, high=9), scalar(4), i(5, 1))
    yield case("Compress", x, np.array([1, 0, 1, 1], bool), axis=0)
    yield case("Compress", x, np.array([1, 0, 1], bool), axis=-1)
    yield case("Compress", x, np.array([1, 0, 1, 1], bool))
    yield case("NonZero", n(3, 4, low=0, high=2))
    yield case("NonZero", b(9))
    for largest in (0, 1):
        yield case("TopK", n(5, 6, low=0, high=4), i(3), outputs=2, largest=largest)
        yield case("TopK", f(5, 6), i(2), outputs=2, axis=0, largest=largest)
    for kind in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            ties = n(4, 6, low=0, high=3, kind="i4")
            yield case(kind, ties, axis=1, select_last_index=last)
            yield case(kind, ties, axis=-2, keepdims=0, select_last_index=last)
        yield case(kind, x)
    for order in (0, 1):
        yield case("Unique", n(20, low=0, high=6), outputs=4, sorted=order)
        yield case("Unique", n(9, 2, low=0, high=2), outputs=4, sorted=order, axis=0)
    yield case("Unique", n(3, 4, low=0, high=3), outputs=1)


def reductions() -> Iterator[Case]:
    x = f(2, 3, 4)
    for kind in [name for name in EVALUATORS if name.startswith("Reduce")]:
        data = np.abs(x) if kind == "ReduceLogSum" else x
        yield case(kind, data)
        yield case(kind, data, i(1), opset=18)
        yield case(kind, data, i(0, -1), opset=18, keepdims=0)
        yield case(kind, data, i(2), opset=18, keepdims=0)
        if kind != "ReduceSum":
            yield case(kind, data, opset=13, axes=[1, 2], keepdims=0)
        if kind in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"):
            yield case(kind, n(3, 4, kind="i4"), i(0), opset=18)
    yield case("ReduceSum", x, noop_with_empty_axes=1)
    yield case("ReduceMax", x, np.zeros(0, "i8"), noop_with_empty_axes=1)
    yield case("ReduceMax", b(3, 4), i(1))
    for exclusive in (0, 1):
        for reverse in (0, 1):
            options = {"exclusive": exclusive, "reverse": reverse}
            yield case("CumSum", f(3, 5), scalar(1), **options)
            yield case("CumSum", n(3, 5), scalar(-2), **options)
    yield case("MatMul", f(2, 1, 3, 4), f(5, 4, 2))
    yield case("MatMul", f(4), f(4))
    yield case("MatMul", f(3, 4), f(4))
    yield case("MatMul", n(3, 4), n(4, 2))
    yield case("Gemm", f(3, 4), f(4, 2))
    yield case("Gemm", f(4, 3), f(2, 4), f(2), transA=1, transB=1, alpha=0.5, beta=2.0)
    yield case("Gemm", f(3, 4), f(4, 2), f(3, 1), beta=0.5)
    scales = np.abs(f(3)) + np.float32(0.1)
    for kind in ("i1", "u1"):
        quantized = n(2, 3, 5, low=0, high=99, kind=kind)
        zeros = n(3, low=0, high=9, kind=kind)
        yield case("DequantizeLinear", quantized, scales, zeros, axis=1)
        yield case("DequantizeLinear", quantized, scales[0], zeros[0])
        yield case("DequantizeLinear", quantized, scales[0])
        yield case("QuantizeLinear", f(2, 3, 5) * 99, scales, zeros, axis=1)
        yield case("QuantizeLinear", f(2, 3, 5), scales[0], zeros[0])
    yield case("DequantizeLinear", n(4, kind="i4"), scales[0])
    blocks = n(2, 6, low=0, high=99, kind="u1")
    yield case("DequantizeLinear", blocks, np.abs(f(2, 2)), axis=1, block_size=3)


CASES = [*elementwise(), *arithmetic(), *logic(), *casts(), *movement(), *indexing(), *reductions()]

KNOWN_TO_NUMPY_ONLY = {"CumProd"}
"""Operators for which ONNX Runtime has no kernel."""


def evaluate(given: Case) -> list[Array]:
    node = node_model(
        given.kind, given.inputs, outputs=given.outputs, opset=given.opset, **given.attributes
    ).graph.node[0]
    inputs = [None if value is None else np.asarray(value) for value in given.inputs]
    with np.errstate(all="ignore"):
        found = EVALUATORS[given.kind](
            Operation(given.kind, attributes_of(node), inputs, given.outputs)
        )
    return [np.asarray(value) for value in found]


def reference(given: Case) -> list[Array]:
    model = node_model(
        given.kind, given.inputs, outputs=given.outputs, opset=given.opset, **given.attributes
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    feeds = {f"in{i}": np.asarray(v) for i, v in enumerate(given.inputs) if v is not None}
    return [np.asarray(value) for value in session.run(None, feeds)]


@pytest.mark.parametrize("given", CASES, ids=lambda given: given.kind)
def test_folded_as_onnx_runtime_computes(given: Case) -> None:
    for found, expected in zip(evaluate(given), reference(given), strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_every_folded_operator_is_compared() -> None:
    assert {given.kind for given in CASES} | KNOWN_TO_NUMPY_ONLY == set(EVALUATORS)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_products(exclusive: int, reverse: int) -> None:
    operation = Operation(
        "CumProd", {"exclusive": exclusive, "reverse": reverse}, [np.array([2.0, 3, 5]), scalar(0)]
    )
    expected = {(0, 0): [2, 6, 30], (1, 0): [1, 2, 6], (0, 1): [30, 15, 5], (1, 1): [15, 5, 1]}
    np.testing.assert_array_equal(EVALUATORS["CumProd"](operation)[0], expected[exclusive, reverse])


@pytest.mark.parametrize(
    "given",
    [
        case("Div", i(1, 2), i(1, 0)),
        case("Mod", i(1, 2), i(1, 0)),
        case("Cast", np.array([3e9, np.nan], "f4"), to=TensorProto.INT32),
        case("Cast", np.array([-1.0], "f4"), to=TensorProto.UINT8),
        case("Pow", i(2), i(-1)),
        case("ReduceMean", n(3)),
    ],
    ids=lambda given: given.kind,
)
def test_what_standards_leave_open_is_left_to_run_time(given: Case) -> None:
    with pytest.raises(NotFoldableError):
        evaluate(given)

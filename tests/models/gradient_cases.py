"""Small graphs for each operator that has a gradient.

Each graph comes with the names of the weights of which gradients are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value

Case = Callable[[GraphBuilder, "Draw"], Value]


class Draw:
    """Draws the weights of a case, and stores the names of the weights.

    The tests compare the gradients with respect to these weights.
    """

    def __init__(self, g: GraphBuilder) -> None:
        self._g = g
        self.names: list[str] = []

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Value:
        """Draw a weight with values between ``low`` and ``high``.

        Any two values differ by more than the step of a finite difference.
        """
        count = math.prod(shape)
        # Evenly spaced, so that no finite difference crosses a tie of a maximum or zero.
        values = low + (high - low) * (self._g.rng.permutation(count) + 0.37) / count
        value = self._g.constant(values.reshape(shape).astype(np.float32), "weight")
        self.names.append(value.name)
        return value


def _op(op_type: str, *shapes: Sequence[int], low: float = -2.0, **attributes: int) -> Case:
    return lambda g, draw: g.op(op_type, *(draw(*s, low=low) for s in shapes), **attributes)


def _pool(op_type: str, **attributes: int | Sequence[int]) -> Case:
    return lambda g, draw: g.op(op_type, draw(2, 3, 7, 6), **attributes)


def _conv(
    sizes: Sequence[int], filters: Sequence[int], bias: bool, **attributes: Sequence[int]
) -> Case:
    def build(g: GraphBuilder, draw: Draw) -> Value:
        operands = [draw(*sizes), draw(*filters), *([draw(filters[0])] if bias else [])]
        return g.op("Conv", *operands, **attributes)

    return build


def _reduction(op_type: str, axes: Sequence[int], keepdims: int = 1) -> Case:
    return lambda g, draw: g.op(op_type, draw(3, 4, 5), g.integers(*axes), keepdims=keepdims)


def _gather(op_type: str, shape: Sequence[int], indices: object, axis: int) -> Case:
    def build(g: GraphBuilder, draw: Draw) -> Value:
        return g.op(op_type, draw(*shape), g.constant(np.array(indices, np.int64)), axis=axis)

    return build


def _slice(starts: Sequence[int], ends: Sequence[int], *rest: Sequence[int]) -> Case:
    def build(g: GraphBuilder, draw: Draw) -> Value:
        return g.op("Slice", draw(5, 6), *(g.integers(*x) for x in (starts, ends, *rest)))

    return build


def _split(g: GraphBuilder, draw: Draw) -> Value:
    first, _, last = g.ops("Split", draw(3, 6), g.integers(1, 3, 2), num_outputs=3, axis=1)
    return g.op("Add", first, g.op("Mul", last, last))


def _where(g: GraphBuilder, draw: Draw) -> Value:
    mask = g.constant(np.array([[True], [False], [True]]))
    return g.op("Where", mask, draw(3, 4), draw(4))


def _clip(g: GraphBuilder, draw: Draw) -> Value:
    bounds = [g.constant(np.array(bound, np.float32)) for bound in (-1.0, 0.5)]
    return g.op("Clip", draw(3, 4), *bounds)


def _pow(g: GraphBuilder, draw: Draw) -> Value:
    return g.op("Pow", draw(3, 4, low=0.5), g.constant(np.array([1, 2, 3, 0.5], np.float32)))


def _cast(g: GraphBuilder, draw: Draw) -> Value:
    x = draw(3, 4)
    signs = g.op("Cast", g.op("Greater", x, g.constant(np.array(0, np.float32))), to=1)
    return g.op("Mul", g.op("Cast", x, to=1), signs)


def _layer_norm(g: GraphBuilder, draw: Draw) -> Value:
    return g.op("LayerNormalization", draw(2, 3, 8), draw(3, 8), draw(3, 8), axis=1)


def _gemm(g: GraphBuilder, draw: Draw) -> Value:
    operands = draw(4, 3), draw(5, 4), draw(5)
    return g.op("Gemm", *operands, transA=1, transB=1, alpha=0.5, beta=2.0)


def _sum(g: GraphBuilder, draw: Draw) -> Value:
    x = draw(3, 4)
    return g.op("Sum", x, draw(4), x)


CASES: dict[str, Case] = {
    "Add": _op("Add", [3, 4], [2, 1, 4]),
    "AveragePool": _pool("AveragePool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]),
    "AveragePool, pads counted": _pool(
        "AveragePool", kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1
    ),
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _op("Concat", [2, 3], [2, 1], [2, 4], axis=1),
    "Conv": _conv([2, 3, 7, 6], [4, 3, 3, 3], True, pads=[1, 1, 1, 1]),
    "Conv, strides": _conv([2, 3, 8, 9], [4, 3, 3, 2], False, strides=[2, 3], pads=[1, 0, 0, 1]),
    "Conv, dilations": _conv([2, 3, 9, 8], [2, 3, 3, 2], True, dilations=[2, 3]),
    "Conv, window larger than stride leaves rest": _conv(
        [1, 2, 8, 8], [2, 2, 2, 2], False, strides=[3, 3]
    ),
    "Div": _op("Div", [3, 4], [3, 1], low=0.5),
    "Erf": _op("Erf", [3, 4]),
    "Exp": _op("Exp", [3, 4]),
    "Expand": lambda g, draw: g.op("Expand", draw(3, 1), g.integers(2, 3, 4)),
    "Flatten": _op("Flatten", [2, 3, 4], axis=2),
    "Gather": _gather("Gather", [5, 3], [[4, 0], [4, 1]], 0),
    "Gather, inner axis": _gather("Gather", [2, 5, 3], [[-1, 0, 4]], 1),
    "GatherElements": _gather("GatherElements", [3, 4], [[0, 0], [3, 1], [-1, 3]], 1),
    "GatherElements, one of each row": _gather("GatherElements", [3, 4], [[0], [-1], [2]], 1),
    "Gelu": _op("Gelu", [3, 4]),
    "Gemm": _gemm,
    "GlobalAveragePool": _op("GlobalAveragePool", [2, 3, 4, 5]),
    "Identity": _op("Identity", [3]),
    "LayerNormalization": _layer_norm,
    "Log": _op("Log", [3, 4], low=0.5),
    "LogSoftmax": _op("LogSoftmax", [3, 4, 5], axis=1),
    "MatMul": _op("MatMul", [3, 4], [4, 5]),
    "MatMul, one matrix for a batch": _op("MatMul", [2, 3, 4], [4, 5]),
    "MatMul, batches broadcast": _op("MatMul", [2, 1, 3, 4], [3, 4, 2]),
    "MaxPool": _pool("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "MaxPool, windows overlap": _pool("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "Mul": _op("Mul", [3, 4], [2, 3, 1]),
    "Mul, by itself": lambda g, draw: g.op("Mul", *[draw(3)] * 2),
    "Neg": _op("Neg", [3]),
    "Pow": _pow,
    "Reciprocal": _op("Reciprocal", [3, 4], low=0.5),
    "ReduceL2": _reduction("ReduceL2", [1]),
    "ReduceLogSumExp": _reduction("ReduceLogSumExp", [-1], 0),
    "ReduceMax": _reduction("ReduceMax", [0, 2], 0),
    "ReduceMean": _reduction("ReduceMean", [1, 2]),
    "ReduceMin": _reduction("ReduceMin", [1]),
    "ReduceSum": _reduction("ReduceSum", [0], 0),
    "ReduceSum, all": _op("ReduceSum", [3, 4]),
    "ReduceSumSquare": _reduction("ReduceSumSquare", [1, -1], 0),
    "Relu": _op("Relu", [3, 4]),
    "Reshape": lambda g, draw: g.reshape(draw(3, 4), 2, -1),
    "Sigmoid": _op("Sigmoid", [3, 4]),
    "Slice": _slice([1, -3], [4, 2**62], [0, 1]),
    "Slice, steps": _slice([4, 0], [-(2**62), 6], [0, 1], [-2, 2]),
    "Softmax": _op("Softmax", [3, 4, 5], axis=1),
    "Split": _split,
    "Sqrt": _op("Sqrt", [3, 4], low=0.5),
    "Squeeze": lambda g, draw: g.op("Squeeze", draw(3, 1, 2), g.integers(1)),
    "Sub": _op("Sub", [3, 4], [2, 1, 1]),
    "Sum": _sum,
    "Tanh": _op("Tanh", [3, 4]),
    "Transpose": _op("Transpose", [2, 3, 4]),
    "Transpose, by an order": lambda g, draw: g.op("Transpose", draw(2, 3, 4), perm=[1, 2, 0]),
    "Unsqueeze": lambda g, draw: g.op("Unsqueeze", draw(3), g.integers(0, 2)),
    "Where": _where,
}
"""The cases, by a name: the operator and, after a comma, the attribute or shape that is tested."""


def build_case(name: str) -> tuple[onnx.ModelProto, list[str]]:
    """Return a case's model, and the names of the weights of which gradients are taken.

    The loss is a weighted sum of the elements of the case's result.
    """
    g = GraphBuilder(name, seed=len(name))
    draw = Draw(g)
    result = CASES[name](g, draw)
    weights = g.constant(g.rng.standard_normal(result.shape).astype(np.float32), "shares")
    total = g.op("ReduceSum", g.op("Mul", result, weights), keepdims=0)
    g.output(total, "loss")
    return g.finish(), draw.names

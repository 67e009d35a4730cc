"""List the differentiable operators, with a gradient rule for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients import (
    elementwise,
    products,
    reductions,
    shapes,
    windows,
)
from rammer_mlir.benchmarks.models.gradients.elementwise import unary
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph, Node

Rule = Callable[[ExtendedGraph, Node, Sequence[Value | None]], Sequence[Value | None]]
"""A function that adds nodes for the gradients of a node's inputs, and returns these gradients.

It is called with the graph, the node, and the gradients of the node's outputs. None stands for no
gradient: of an output that the loss does not depend on, or of an input that is an integer, a
boolean, or treated as a constant. Trailing gradients may be omitted.
"""

RULES: Mapping[str, Rule] = {
    "Add": elementwise.add,
    "AveragePool": windows.average_pool,
    "Cast": elementwise.cast,
    "Clip": elementwise.clip,
    "Concat": shapes.concat,
    "Conv": windows.conv,
    "Div": elementwise.div,
    "Erf": unary(elementwise.erf),
    "Exp": unary(elementwise.exp),
    "Expand": shapes.expand,
    "Flatten": shapes.reshape,
    "Gather": shapes.gather,
    "GatherElements": shapes.gather_elements,
    "Gelu": elementwise.gelu,
    "Gemm": products.gemm,
    "GlobalAveragePool": windows.global_average_pool,
    "Identity": unary(elementwise.identity),
    "LayerNormalization": reductions.layer_norm,
    "Log": unary(elementwise.log),
    "LogSoftmax": reductions.log_softmax,
    "MatMul": products.matmul,
    "MaxPool": windows.max_pool,
    "Mul": elementwise.mul,
    "Neg": unary(elementwise.negate),
    "Pow": elementwise.power,
    "Reciprocal": unary(elementwise.reciprocal),
    "ReduceL2": reductions.reduce_l2,
    "ReduceLogSumExp": reductions.reduce_log_sum_exp,
    "ReduceMax": reductions.reduce_extremum,
    "ReduceMean": reductions.reduce_mean,
    "ReduceMin": reductions.reduce_extremum,
    "ReduceSum": reductions.reduce_sum,
    "ReduceSumSquare": reductions.reduce_sum_square,
    "Relu": unary(elementwise.relu),
    "Reshape": shapes.reshape,
    "Sigmoid": unary(elementwise.sigmoid),
    "Slice": shapes.slice_,
    "Softmax": reductions.softmax,
    "Split": shapes.split,
    "Sqrt": unary(elementwise.sqrt),
    "Squeeze": shapes.reshape,
    "Sub": elementwise.sub,
    "Sum": elementwise.add,
    "Tanh": unary(elementwise.tanh),
    "Transpose": shapes.transpose,
    "Unsqueeze": shapes.reshape,
    "Where": elementwise.where,
}

"""Draw random cases from seeds; a case is a model of one or a few operators."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.counts import count
from rammer_mlir.benchmarks.sweep.families import FAMILIES
from rammer_mlir.benchmarks.sweep.sizes import Sizes

MOST_FLOPS = 2_000_000_000
MOST_BYTES = 64 * 2**20
"""Largest size of a case's tensors in bytes.

A case with ``MOST_FLOPS`` operations and ``MOST_BYTES`` bytes takes about 50 ms on a core.
"""


@dataclass(frozen=True)
class Case:
    """A random case: a model of one or a few operators, of random sizes.

    Attributes:
        seed: the seed from which the case is drawn.
        family: name of the case's family, such as "softmax".
        title: operators, and the shapes of inputs, weights and result.
        flops: multiplications and additions of the case's matrix products and convolutions.
        num_bytes: bytes of inputs, weights and result, each counted once.
    """

    seed: int
    family: str
    title: str
    flops: int
    num_bytes: int


def draw(seed: int) -> tuple[Case, onnx.ModelProto]:
    """Return the case of the seed ``seed``, and its model.

    The seed modulo the number of families selects the family. A case with more than ``MOST_FLOPS``
    or ``MOST_BYTES`` is drawn again.
    """
    names = list(FAMILIES)
    family = names[seed % len(names)]
    for attempt in range(1000):
        g = GraphBuilder(f"{family}_{seed}", seed=_mixed(seed, attempt))
        result = FAMILIES[family](g, Sizes(np.random.default_rng([seed, attempt])))
        g.output(result, "result")
        model = g.finish()
        num_bytes = _bytes(model, result)
        if num_bytes > MOST_BYTES:
            continue
        flops = count(model).flops
        if flops <= MOST_FLOPS:
            return Case(seed, family, _title(model, result), flops, num_bytes), model
    raise AssertionError(f"family {family} exceeds its limits in 1000 attempts")


def _mixed(seed: int, attempt: int) -> int:
    return seed * 1000 + attempt


def _bytes(model: onnx.ModelProto, result: Value) -> int:
    inputs = [
        [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input
    ]
    constants = [list(tensor.dims) for tensor in model.graph.initializer]
    return 4 * sum(map(prod, [*inputs, *constants, list(result.shape)]))


def _title(model: onnx.ModelProto, result: Value) -> str:
    """Return a title with a case's operators, shapes and attributes.

    The shapes are those of the inputs, the result, and the weights of more than one dimension. The
    attributes are those in ``_SHOWN`` that have an element other than 0 and 1.
    """
    graph = model.graph
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.input]
    shapes += [list(t.dims) for t in graph.initializer if len(t.dims) > 1]
    attributes = [
        f"{a.name}={','.join(map(str, a.ints)) or a.i}"
        for node in graph.node
        for a in node.attribute
        if a.name in _SHOWN and any(i not in (0, 1) for i in (a.i, *a.ints))
    ]
    operators = " ".join(node.op_type for node in graph.node)
    written = " ".join("x".join(map(str, shape)) for shape in shapes)
    more = f" {' '.join(attributes)}" if attributes else ""
    return f"{operators} {written} -> {'x'.join(map(str, result.shape))}{more}"


_SHOWN = ("strides", "dilations", "group", "pads", "perm", "axis")
"""Names of attributes that a title shows if they are not zeros or ones."""

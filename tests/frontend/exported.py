"""Small models that compute masks, positions and shapes from the shapes of their inputs.

They are built node by node as exporters write models: each size is computed again from `Shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
INF = 2**62


class Graph:
    """A builder of ONNX graphs; its methods add nodes, and return the names of results."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str], kind: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def const(self, value: Any, kind: str = "i8") -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, kind), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def size(self, value: str, axis: int) -> str:
        """Add nodes that compute the size of a dimension as a scalar; return the scalar's name."""
        return self.node("Gather", self.node("Shape", value), self.const(axis), axis=0)

    def vector(self, *sizes: str | int) -> str:
        """Add nodes that join sizes to a shape; return the shape's name.

        A size is a number, or the name of a scalar in the graph.
        """
        parts = [
            self.const([s]) if isinstance(s, int) else self.node("Unsqueeze", s, self.const([0]))
            for s in sizes
        ]
        return self.node("Concat", *parts, axis=0)

    def range(self, end: str) -> str:
        return self.node("Range", self.const(0), end, self.const(1))

    def column(self, vector: str) -> str:
        return self.node("Unsqueeze", vector, self.const([1]))

    def slice(self, value: str, start: int | str, end: int | str, axis: int) -> str:
        bounds = [self.const([b]) if isinstance(b, int) else b for b in (start, end)]
        return self.node("Slice", value, *bounds, self.const([axis]))

    def model(self, *outputs: str, kind: int = FLOAT) -> onnx.ModelProto:
        results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, results, self.constants)
        imports = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9)


def compared_positions() -> onnx.ModelProto:
    """Return a model like GPT: a comparison of positions hides the keys after each query."""
    g = Graph()
    x = g.input("x", ["s", "s"])
    positions = g.range(g.size(x, 1))
    hidden = g.node("Greater", g.node("Unsqueeze", positions, g.const([0])), g.column(positions))
    mask = g.node("Where", hidden, g.const(-1e9, "f4"), g.const(0, "f4"))
    return g.model(g.node("Softmax", g.node("Add", x, mask), axis=-1))


def triangle() -> onnx.ModelProto:
    """Return a model like GPT-2: a lower triangular matrix selects the scores that are kept."""
    g = Graph()
    x = g.input("x", ["s", "s"])
    length = g.size(x, 0)
    one = numpy_helper.from_array(np.ones(1, "f4"))
    ones = g.node("ConstantOfShape", g.vector(length, length), value=one)
    kept = g.node("Cast", g.node("Trilu", ones, upper=0), to=BOOL)
    filled = g.node("Where", kept, x, g.const(np.finfo("f4").min, "f4"))
    return g.model(g.node("Softmax", filled, axis=-1))


def padding_in_causal_mask() -> onnx.ModelProto:
    """Return a model like Llama: the padding mask is written into a copy of the causal mask."""
    g = Graph()
    x, given = g.input("x", [1, 1, "s", "s"]), g.input("given", [1, "s"], INT64)
    length = g.size(x, 2)
    least = float(np.finfo("f4").min)
    square = g.vector(length, length)
    filling = numpy_helper.from_array(np.array([least], "f4"))
    upper = g.node("Trilu", g.node("ConstantOfShape", square, value=filling), g.const(1), upper=1)
    late = g.node("Greater", g.range(length), g.column(g.range(length)))
    causal = g.node("Mul", upper, g.node("Cast", late, to=FLOAT))
    shape = g.vector(1, 1, length, length)
    wide = g.node("Expand", g.node("Unsqueeze", causal, g.const([0, 1])), shape)
    padding = g.node("Unsqueeze", g.node("Cast", given, to=FLOAT), g.const([1, 2]))
    is_padding = g.node("Equal", g.node("Add", wide, padding), g.const(0, "f4"))
    updates = g.node("Where", is_padding, g.const(least, "f4"), wide)
    places = [
        g.node("Expand", g.node("Reshape", g.range(n), g.const(s)), shape)
        for n, s in (
            (g.const(1), [-1, 1, 1, 1]),
            (g.const(1), [-1, 1, 1]),
            (length, [-1, 1]),
            (length, [-1]),
        )
    ]
    stacked = [g.node("Unsqueeze", place, g.const([-1])) for place in places]
    mask = g.node("ScatterND", wide, g.node("Concat", *stacked, axis=-1), updates)
    return g.model(g.node("Softmax", g.node("Add", x, mask), axis=-1))


def sliding_window() -> onnx.ModelProto:
    """Return a model like Mistral: a query sees only a window of the keys before it."""
    g = Graph()
    x = g.input("x", ["s", "s"])
    positions = g.range(g.size(x, 0))
    distance = g.node("Sub", g.column(positions), positions)
    seen = g.node(
        "And",
        g.node("GreaterOrEqual", distance, g.const(0)),
        g.node("Less", distance, g.const(16)),
    )
    hidden = g.node("Cast", g.node("Not", seen), to=FLOAT)
    return g.model(g.node("Add", x, g.node("Mul", hidden, g.const(-1e4, "f4"))))


def counted_positions() -> onnx.ModelProto:
    """Return a model like OPT: positions are counted where the mask is 1, and select table rows."""
    g = Graph()
    mask = g.input("mask", [1, "s"], INT64)
    table = g.const(np.random.default_rng(0).standard_normal((1100, 4)), "f4")
    counted = g.node("Mul", g.node("CumSum", mask, g.const(1)), mask)
    positions = g.node("Add", g.node("Sub", counted, g.const(1)), g.const(2))
    ones = g.node(
        "ConstantOfShape", g.node("Shape", mask), value=numpy_helper.from_array(np.ones(1, "i8"))
    )
    counts = g.node("Add", positions, g.node("CumSum", ones, g.const(1)))
    limited = g.node("Min", counts, g.const(1099))
    return g.model(g.node("Gather", table, limited))


def relative_buckets() -> onnx.ModelProto:
    """Return a model like T5: distances are put into buckets, exact if small, else logarithmic."""
    g = Graph()
    x = g.input("x", [1, 2, "s", "s"])
    keys = g.range(g.size(x, 3))
    relative = g.node("Sub", keys, g.column(g.range(g.size(x, 2))))
    above = g.node(
        "Mul", g.node("Cast", g.node("Greater", relative, g.const(0)), to=INT64), g.const(16)
    )
    distance = g.node("Abs", relative)
    ratio = g.node("Div", g.node("Cast", distance, to=FLOAT), g.const(8, "f4"))
    scaled = g.node("Div", g.node("Log", ratio), g.const(np.log(16), "f4"))
    far = g.node(
        "Add", g.node("Cast", g.node("Mul", scaled, g.const(8, "f4")), to=INT64), g.const(8)
    )
    limit = g.node(
        "ConstantOfShape", g.node("Shape", far), value=numpy_helper.from_array(np.full(1, 15))
    )
    bucket = g.node(
        "Where", g.node("Less", distance, g.const(8)), distance, g.node("Min", far, limit)
    )
    table = g.const(np.random.default_rng(0).standard_normal((32, 2)), "f4")
    values = g.node("Gather", table, g.node("Add", above, bucket))
    bias = g.node("Unsqueeze", g.node("Transpose", values, perm=[2, 0, 1]), g.const([0]))
    return g.model(g.node("Softmax", g.node("Add", x, bias), axis=-1))


def shifted_windows() -> onnx.ModelProto:
    """Return a model like Swin: rows are padded, rolled, cut into windows, and masked by region."""
    g = Graph()
    x = g.input("x", [1, "s", 4, 2])
    window, shift = 4, 2
    rest = g.node("Mod", g.size(x, 1), g.const(window))
    more = g.node("Mod", g.node("Sub", g.const(window), rest), g.const(window))
    zeros = [0] * 5
    padded = g.node("Pad", x, g.vector(*zeros, more, 0, 0))
    rolled = _roll(g, padded, shift, 1)
    rows = g.size(padded, 1)
    regions = _regions(g, rows, window, shift)
    flat = g.node("Reshape", _windows(g, regions, rows, window, 1), g.const([-1, window * 4]))
    difference = g.node(
        "Sub", g.node("Unsqueeze", flat, g.const([1])), g.node("Unsqueeze", flat, g.const([2]))
    )
    other = g.node("Not", g.node("Equal", difference, g.const(0, "f4")))
    mask = g.node("Where", other, g.const(-100, "f4"), g.const(0, "f4"))
    pixels = g.node("Reshape", _windows(g, rolled, rows, window, 2), g.const([-1, window * 4, 2]))
    scores = g.node("MatMul", pixels, g.node("Transpose", pixels, perm=[0, 2, 1]))
    return g.model(g.node("Softmax", g.node("Add", scores, mask), axis=-1))


def _roll(g: Graph, value: str, shift: int, axis: int) -> str:
    parts = [g.slice(value, shift, INF, axis), g.slice(value, 0, shift, axis)]
    return g.node("Concat", *parts, axis=axis)


def _regions(g: Graph, rows: str, window: int, shift: int) -> str:
    """Add nodes that compute the index of each row's region, from 0 to 2; return the result's name.

    ``rows`` is the name of the number of rows. The last ``shift`` rows are region 2, the rest of
    the last ``window`` rows is region 1. As in exporters' models, parts of a tensor of zeros are
    overwritten one by one.
    """
    image = g.node("ConstantOfShape", g.vector(1, rows, window, 1))
    bounds = [(0, -window, 0.0), (-window, -shift, 1.0), (-shift, INF, 2.0)]
    for start, end, number in bounds:
        every = g.range(rows)
        chosen = g.slice(every, start, end, 0)
        part = g.node("Gather", image, chosen, axis=1)
        value = g.node("Expand", g.const(number, "f4"), g.node("Shape", part))
        moved = g.node("Transpose", value, perm=[1, 0, 2, 3])
        target = g.node("Transpose", image, perm=[1, 0, 2, 3])
        places = g.node("Unsqueeze", chosen, g.const([-1]))
        written = g.node("ScatterND", target, places, moved)
        image = g.node("Transpose", written, perm=[1, 0, 2, 3])
    return image


def _windows(g: Graph, value: str, rows: str, window: int, channels: int) -> str:
    count = g.node("Div", rows, g.const(window))
    split = g.node("Reshape", value, g.vector(1, count, window, 1, 4, channels))
    return g.node("Transpose", split, perm=[0, 1, 3, 2, 4, 5])


def rotary() -> onnx.ModelProto:
    """Return a model like Llama: queries are rotated by angles that grow with their position."""
    g = Graph()
    x = g.input("x", [1, "s", 8])
    frequencies = g.const(10000.0 ** (-np.arange(4) / 4), "f4")
    positions = g.node("Cast", g.range(g.size(x, 1)), to=FLOAT)
    angles = g.node("Mul", g.column(positions), frequencies)
    both = g.node("Concat", angles, angles, axis=-1)
    half = g.node("Div", g.size(x, 2), g.const(2))
    middle = g.node("Unsqueeze", half, g.const([0]))
    turned = g.node(
        "Concat", g.node("Neg", g.slice(x, middle, INF, 2)), g.slice(x, 0, middle, 2), axis=-1
    )
    cosines = g.node("Mul", x, g.node("Cos", both))
    return g.model(g.node("Add", cosines, g.node("Mul", turned, g.node("Sin", both))))


def chained_shapes() -> onnx.ModelProto:
    """Return a model in which each layer computes its shape from the previous layer's shape.

    The shapes are computed in floats, too.
    """
    g = Graph()
    x = g.input("x", ["s", 4])
    for _ in range(10):
        area = g.node("Cast", g.node("Size", x), to=FLOAT)
        rows = g.node("Div", g.node("Sqrt", g.node("Mul", area, area)), g.const(4, "f4"))
        whole = g.node("Cast", g.node("Round", rows), to=INT64)
        x = g.node("Relu", g.node("Reshape", x, g.vector(whole, -1)))
        chosen = g.node(
            "Compress", x, g.node("Greater", g.range(g.size(x, 1)), g.const(-1)), axis=1
        )
        x = g.node("Add", x, chosen)
    return g.model(x)


def squeezed_if_one() -> onnx.ModelProto:
    """Return a model as PyTorch exports: an If removes a dimension if the dimension's size is 1."""
    g = Graph()
    x = g.input("x", ["s", 1, 4])
    is_one = g.node("Equal", g.size(x, 1), g.const(1))
    axes = g.const([1])
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(kind, inputs, [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, FLOAT, None)],
        )
        for name, kind, inputs in (("then", "Squeeze", [x, axes]), ("else", "Identity", [x]))
    }
    chosen = g.node("If", is_one, **branches)
    return g.model(g.node("MatMul", chosen, g.const(np.eye(4), "f4")))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    function.__name__: function
    for function in (
        chained_shapes,
        compared_positions,
        counted_positions,
        padding_in_causal_mask,
        relative_buckets,
        rotary,
        shifted_windows,
        sliding_window,
        squeezed_if_one,
        triangle,
    )
}


def feeds(model: onnx.ModelProto, length: int) -> dict[str, Array]:
    """Return random inputs with open dimensions of size ``length``; masks have some zeros."""
    random = np.random.default_rng(length)
    values: dict[str, Array] = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [length if dim.dim_param else dim.dim_value for dim in dims]
        if value.type.tensor_type.elem_type == INT64:
            values[value.name] = (random.random(shape) < 0.9).astype("i8")
        else:
            values[value.name] = random.standard_normal(shape).astype("f4")
    return values

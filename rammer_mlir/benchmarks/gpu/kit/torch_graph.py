"""Run an ONNX graph as a PyTorch module; only operators of the kit's networks are supported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from rammer_mlir.benchmarks.gpu.kit.store import Array, Reference
from rammer_mlir.errors import UnsupportedError

Attributes = Mapping[str, Any]

# PyTorch is not installed where types are checked.
Torch: TypeAlias = Any
"""The module ``torch``."""
Tensor: TypeAlias = Any
"""A ``torch.Tensor``."""
Module: TypeAlias = Any
"""A ``torch.nn.Module``."""

_LONGEST_LITERAL = 16
"""Largest number of elements of an integer constant that is stored in the graph.

Short integer constants are shapes.
"""


@dataclass(frozen=True)
class Node:
    """An ONNX node: its operator, the names of its operands and results, and its attributes.

    The name of an omitted operand or result is empty. ``attributes`` has, by name, the values of
    ONNX's attributes as numbers, texts, or lists of these.
    """

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Graph:
    """An ONNX graph; its constants are in a kit's store.

    Attributes:
        inputs, outputs: names of the inputs and outputs.
        nodes: operators in topological order.
        arrays: references to constants by name.
        literals: elements of short integer constants, such as shapes, by name.
    """

    inputs: list[str]
    outputs: list[str]
    nodes: list[Node]
    arrays: dict[str, Reference]
    literals: dict[str, list[int]]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object for ``of_json``."""
        return asdict(self)

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Graph:
        """Rebuild a graph from the object that ``to_json`` returned."""
        fields: dict[str, Any] = {**found, "nodes": [Node(**node) for node in found["nodes"]]}
        return cls(**fields)


def describe_graph(model: Any, put: Callable[[str, Array], Reference]) -> Graph:
    """Return a description of the graph of ``model``, an ``onnx.ModelProto``.

    ``put`` is called with the name and the array of each constant, and returns the reference that
    the description has instead of the array. Short integer constants are not passed to ``put``.

    Raises:
        UnsupportedError: if this module does not implement an operator.
    """
    from onnx import helper, numpy_helper

    nodes: list[Node] = []
    for node in model.graph.node:
        attributes = {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}
        nodes.append(Node(node.op_type, list(node.input), list(node.output), attributes))
    unknown = sorted({node.op for node in nodes} - _OPERATORS.keys())
    if unknown:
        raise UnsupportedError(
            f"baseline in PyTorch: expected operators among {', '.join(sorted(_OPERATORS))}, "
            f"found {', '.join(unknown)}; add them to torch_graph.py"
        )
    arrays: dict[str, Reference] = {}
    literals: dict[str, list[int]] = {}
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.int64 and value.size <= _LONGEST_LITERAL:
            literals[tensor.name] = value.ravel().tolist()
        else:
            arrays[tensor.name] = put(tensor.name, value)
    inputs = [value.name for value in model.graph.input]
    return Graph(inputs, [value.name for value in model.graph.output], nodes, arrays, literals)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def module_of(torch: Torch, graph: Graph, arrays: Mapping[str, Array]) -> Module:
    """Return a ``torch.nn.Module`` that computes the graph's outputs, as a tuple.

    Args:
        torch: the package.
        graph: the graph.
        arrays: the graph's constants by name.
    """

    class OnnxGraph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places = {name: f"constant{number}" for number, name in enumerate(arrays)}
            for name, array in arrays.items():
                # A copy: arrays from a file may be read-only, which PyTorch warns of.
                self.register_buffer(self.places[name], torch.from_numpy(np.array(array)))

        def forward(self, *inputs: Any) -> Tensor:
            values: dict[str, Tensor] = dict(zip(graph.inputs, inputs, strict=True))
            # Shapes stay Python lists, so that torch.compile sees constants.
            values.update(graph.literals)
            for name, place in self.places.items():
                values[name] = getattr(self, place)
            for node in graph.nodes:
                given = [values[name] if name else None for name in node.inputs]
                found = _OPERATORS[node.op](torch, node.attributes, *given)
                results = found if isinstance(found, tuple) else (found,)
                values.update(zip(node.outputs, results, strict=False))
            return tuple(values[name] for name in graph.outputs)

    return OnnxGraph().eval()


def product_of(torch: Torch) -> Callable[[Tensor, Tensor], tuple[Tensor]]:
    """Return a function that multiplies two matrices, and returns a tuple of their product."""

    def multiply(x: Tensor, w: Tensor) -> tuple[Tensor]:
        return (torch.matmul(x, w),)

    return multiply


def _conv(torch: Torch, a: Attributes, x: Tensor, w: Tensor, b: Tensor = None) -> Tensor:
    rank = len(w.shape) - 2
    x, pads = _padded(torch, a, x, rank)
    function = getattr(torch.nn.functional, f"conv{rank}d")
    return function(x, w, b, a.get("strides", 1), pads, a.get("dilations", 1), a.get("group", 1))


def _padded(torch: Torch, a: Attributes, x: Tensor, rank: int) -> tuple[Tensor, list[int]]:
    """Pad ``x`` with zeros if an operator's padding differs at the beginning and at the end.

    PyTorch's operators only have symmetric padding.

    Args:
        torch: the package.
        a: ONNX's attributes of the operator.
        x: the operand.
        rank: number of spatial dimensions.

    Returns:
        The operand, padded or not, and the padding of each spatial dimension that PyTorch's
        operator has to add.
    """
    pads = a.get("pads", [0] * (2 * rank))
    low, high = pads[:rank], pads[rank:]
    if low == high:
        return x, low
    # PyTorch pads from the last dimension to the first, each as (low, high).
    both = [side for pair in reversed(list(zip(low, high, strict=True))) for side in pair]
    return torch.nn.functional.pad(x, both), [0] * rank


def _max_pool(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    rank = len(a["kernel_shape"])
    pads = _equal_pads(a, rank)
    function = getattr(torch.nn.functional, f"max_pool{rank}d")
    return function(
        x, a["kernel_shape"], a.get("strides", 1), pads, ceil_mode=bool(a.get("ceil_mode", 0))
    )


def _average_pool(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    rank = len(a["kernel_shape"])
    pads = _equal_pads(a, rank)
    function = getattr(torch.nn.functional, f"avg_pool{rank}d")
    return function(
        x, a["kernel_shape"], a.get("strides", 1), pads, bool(a.get("ceil_mode", 0)),
        bool(a.get("count_include_pad", 0)),
    )  # fmt: skip


def _equal_pads(a: Attributes, rank: int) -> list[int]:
    pads = a.get("pads", [0] * (2 * rank))
    if pads[:rank] != pads[rank:]:
        raise UnsupportedError(
            f"baseline in PyTorch: expected a pool with equal pads on both sides, found {pads}; "
            "leave the baseline out"
        )
    return pads[:rank]


def _gemm(torch: Torch, a: Attributes, x: Tensor, w: Tensor, c: Tensor = None) -> Tensor:
    x = x.T if a.get("transA") else x
    w = w.T if a.get("transB") else w
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    y = torch.matmul(x, w)
    y = y if alpha == 1 else y * alpha
    return y if c is None else y + (c if beta == 1 else c * beta)


def _reshape(torch: Torch, a: Attributes, x: Tensor, shape: list[int]) -> Tensor:
    del a
    # In ONNX, a size of 0 keeps the operand's dimension.
    sizes = [x.shape[n] if size == 0 else size for n, size in enumerate(shape)]
    return torch.reshape(x, sizes)


def _flatten(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    axis = a.get("axis", 1)
    first = 1
    for size in x.shape[:axis]:
        first *= size
    return torch.reshape(x, [first, -1])


def _layer_norm(
    torch: Torch, a: Attributes, x: Tensor, scale: Tensor, bias: Tensor = None
) -> Tensor:
    axis = a.get("axis", -1)
    shape = list(x.shape)[axis:]
    return torch.nn.functional.layer_norm(x, shape, scale, bias, a.get("epsilon", 1e-5))


def _sum(torch: Torch, a: Attributes, *xs: Any) -> Tensor:
    del torch, a
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def _lstm(
    torch: Torch, a: Attributes, x: Tensor, w: Tensor, r: Tensor, b: Tensor = None,
    lengths: Tensor = None, h: Tensor = None, c: Tensor = None, peepholes: Tensor = None,
) -> Tensor:  # fmt: skip
    """Compute ONNX's operator LSTM by PyTorch's LSTM.

    Return ONNX's three outputs: the hidden states of all time steps, the last hidden state, and the
    last cell state. ONNX orders gates i, o, f, c, and PyTorch i, f, c, o. Raises UnsupportedError
    for lengths, peepholes and a layer that only runs in reverse.
    """
    if lengths is not None or peepholes is not None or a.get("direction") == "reverse":
        raise UnsupportedError(
            "baseline in PyTorch: expected an LSTM without lengths and peepholes, forward or in "
            "both directions; leave the baseline out"
        )
    directions, hidden = w.shape[0], a["hidden_size"]
    if b is None:
        b = torch.zeros(directions, 8 * hidden, dtype=w.dtype, device=w.device)
    weights: list[Tensor] = []
    for number in range(directions):
        parts = [w[number], r[number], b[number][: 4 * hidden], b[number][4 * hidden :]]
        weights += [_gates(torch, part, hidden) for part in parts]
    if h is None:
        h = torch.zeros(directions, x.shape[1], hidden, dtype=x.dtype, device=x.device)
    c = torch.zeros_like(h) if c is None else c
    y, hn, cn = torch.lstm(x, (h, c), weights, True, 1, 0.0, False, directions == 2, False)
    y = y.reshape(x.shape[0], x.shape[1], directions, hidden).permute(0, 2, 1, 3)
    return y, hn, cn


def _gates(torch: Torch, part: Tensor, hidden: int) -> Tensor:
    i, o, f, c = (part[n * hidden : (n + 1) * hidden] for n in range(4))
    return torch.cat((i, f, c, o))


def _gelu(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate=a.get("approximate", "none"))


def _add(torch: Torch, a: Attributes, x: Tensor, y: Tensor) -> Tensor:
    del torch, a
    return x + y


def _concat(torch: Torch, a: Attributes, *xs: Any) -> Tensor:
    return torch.cat(xs, a["axis"])


def _global_average(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    del torch, a
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


def _matmul(torch: Torch, a: Attributes, x: Tensor, y: Tensor) -> Tensor:
    del a
    return torch.matmul(x, y)


def _mul(torch: Torch, a: Attributes, x: Tensor, y: Tensor) -> Tensor:
    del torch, a
    return x * y


def _neg(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    del torch, a
    return -x


def _relu(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    del a
    return torch.relu(x)


def _softmax(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    return torch.softmax(x, a.get("axis", -1))


def _transpose(torch: Torch, a: Attributes, x: Tensor) -> Tensor:
    del torch
    return x.permute(a["perm"])


_OPERATORS: dict[str, Callable[..., Tensor]] = {
    "Add": _add,
    "AveragePool": _average_pool,
    "Concat": _concat,
    "Conv": _conv,
    "Flatten": _flatten,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Mul": _mul,
    "Neg": _neg,
    "Relu": _relu,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Sum": _sum,
    "Transpose": _transpose,
}
"""The function for each ONNX operator.

Its arguments are the package ``torch``, the operator's attributes, then its inputs.
"""

"""Random valid models, built node by node.

Each node is run when it is added, so that the numbers of all values are known.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.arrays import Array, draw, is_float
from tests.fuzz.oracle import Rejected, is_grid, run_node

SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 19, 24, 31, 32, 33, 48, 65)
"""Sizes of dimensions: 1, and sizes below, at and above those of vectors and tiles."""

MOST_ELEMENTS = 1 << 14
"""Most elements of a value; more would take run time without testing the compiler further."""

LARGEST = 1e4
"""Largest magnitude in a node's float results; larger numbers overflow a few operators later."""

FLOATS = ("float32", "float32", "float32", "float32", "float64", "float16")
INTEGERS = ("int64", "int32", "int64", "int8", "uint8")


@dataclass(frozen=True)
class Value:
    """A tensor of a random graph, with its numbers in a run on the graph's random inputs.

    Attributes:
        name: name in the graph.
        array: its numbers.
        is_constant: whether it depends on no input.
    """

    name: str
    array: Array
    is_constant: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the tensor."""
        return self.array.dtype

    @property
    def is_exact(self) -> bool:
        """Whether its numbers have no rounding errors, so that comparisons of them are reliable."""
        return not is_float(self.dtype) or is_grid(self.array)


class RandomGraph:
    """A graph under construction, to which random nodes are added.

    Attributes:
        random: the generator of all random choices.
        opset: version of ONNX's operators.
        has_zeros: whether dimensions may have size 0.
    """

    def __init__(self, seed: int) -> None:
        """Create an empty graph; ``seed`` determines all choices."""
        self.random = random.Random(seed)
        self.opset = self.random.choice((7, 8, 9, 10, 11, 12, 13, 15, 17, 18, 19, 20, 21, 22, 23))
        self.has_zeros = self.random.random() < 0.15
        self._seed = seed
        self._opsets = [
            helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)
        ]  # fmt: skip
        self._nodes: list[onnx.NodeProto] = []
        self._values: dict[str, Value] = {}
        self._inputs: list[str] = []
        self._initializers: list[str] = []

    def size(self) -> int:
        """Return a random size of a dimension."""
        if self.has_zeros and self.random.random() < 0.15:
            return 0
        return self.random.choice(SIZES)

    def shape(self, rank: int | None = None, most: int = MOST_ELEMENTS // 4) -> tuple[int, ...]:
        """Return a random shape of rank ``rank``, or any rank, with at most ``most`` elements."""
        rank = self.random.choice((0, 1, 2, 2, 3, 3, 4, 4, 5)) if rank is None else rank
        sizes: list[int] = []
        for _ in range(rank):
            size = self.size()
            sizes.append(size if size * max(1, int(np.prod(sizes))) <= most else 1)
        self.random.shuffle(sizes)
        return tuple(sizes)

    def input(self, shape: Sequence[int], dtype: str = "", prefix: str = "") -> Value:
        """Add an input; ``prefix`` is the start of its name, which selects its numbers.

        See ``tests.fuzz.arrays`` for the prefixes.
        """
        dtype = dtype or self.random.choice(FLOATS)
        prefix = prefix or self.random.choice("xxqp")
        name = f"{prefix}{len(self._values)}"
        if prefix.startswith("i"):
            name = f"i{len(self._values)}_{prefix[1:]}"
        value = Value(name, draw(name, shape, np.dtype(dtype), self._seed))
        self._values[name] = value
        self._inputs.append(name)
        return value

    def constant(self, array: Array) -> Value:
        """Add a constant with the numbers ``array``, as an initializer or as a Constant node."""
        value = Value(f"c{len(self._values)}", np.asarray(array), is_constant=True)
        self._values[value.name] = value
        if self.random.random() < 0.2 and array.dtype != np.dtype("bfloat16"):
            tensor = numpy_helper.from_array(value.array, value.name)
            self._nodes.append(helper.make_node("Constant", [], [value.name], value=tensor))
        else:
            self._initializers.append(value.name)
        return value

    def weight(self, shape: Sequence[int], dtype: Any = "float32", prefix: str = "") -> Value:
        """Return a value of a shape with random numbers: a constant or, less often, a new input.

        The constant is new, or one that was added before. ``prefix`` selects the numbers of a new
        value, as for inputs.
        """
        kind = np.dtype(dtype).name
        prefix = prefix or self.random.choice("xq")
        if self.random.random() < 0.3:
            return self.input(shape, kind, prefix)
        for value in self._values.values():
            shared = value.is_constant and (value.shape, value.dtype.name) == (tuple(shape), kind)
            if shared and prefix[0] not in "pi" and self.random.random() < 0.3:
                return value
        given = f"{prefix[0]}{len(self._values)}" + (f"_{prefix[1:]}" if prefix[1:] else "")
        return self.constant(draw(given, shape, np.dtype(kind), self._seed))

    def integers(self, numbers: Sequence[int] | int) -> Value:
        """Add a constant of int64, such as a shape, axes or sizes."""
        return self.constant(np.array(numbers, np.int64))

    def pick(self, fits: Callable[[Value], bool]) -> Value | None:
        """Return a random value for which ``fits`` is true; None if there is none.

        Values that were added later are more likely.
        """
        found = [value for value in self._values.values() if fits(value)]
        weights = [
            0.1 if v.is_constant else 1.0 + 3.0 * i / len(found) for i, v in enumerate(found)
        ]
        return self.random.choices(found, weights)[0] if found else None

    def tensor(self, rank: int | Sequence[int] | None = None, kinds: str = "f", *,
               exact: bool = False) -> Value:  # fmt: skip
        """Return a value of a given rank and element kind: an existing value or a new input.

        Args:
            rank: the rank, or the possible ranks; any rank if None.
            kinds: possible kinds of elements: "f", "i", "u" or "b", as in NumPy.
            exact: whether the value's numbers must have no rounding errors.
        """
        ranks = (rank,) if isinstance(rank, int) else rank

        def fits(value: Value) -> bool:
            kind = "f" if is_float(value.dtype) else value.dtype.kind
            return (
                kind in kinds
                and (ranks is None or len(value.shape) in ranks)
                and (not exact or value.is_exact)
            )

        found = self.pick(fits) if self.random.random() < 0.9 else None
        if found is not None:
            return found
        chosen = self.random.choice(ranks) if ranks is not None else None
        kind = self.random.choice(kinds)
        types = {"f": FLOATS, "i": ("int64", "int32", "int8", "int16"), "u": ("uint8", "uint32"),
                 "b": ("bool",)}[kind]  # fmt: skip
        return self.input(self.shape(chosen), self.random.choice(types), "q" if exact else "")

    def node(self, operator: str, inputs: Sequence[Value | None], outputs: int = 1, *,
             domain: str = "", **attributes: Any) -> list[Value]:  # fmt: skip
        """Add a node, run it, and return its results.

        Raises:
            Rejected: if the opset has no such operator, ONNX Runtime refuses the node, or its
                results are too large, for example.
        """
        # ONNX Runtime has kernels of some operators for opsets that do not define these.
        if not domain and not onnx.defs.has(operator, self.opset, domain):
            raise Rejected(f"opset {self.opset} has no {operator}")
        results = [f"t{len(self._values) + i}" for i in range(outputs)]
        names = ["" if value is None else value.name for value in inputs]
        node = helper.make_node(operator, names, results, domain=domain, **attributes)
        given = {v.name: v.array for v in inputs if v is not None}
        found = run_node(node, given, self._opsets)
        constant = all(v is None or v.is_constant for v in inputs)
        _require_agreement(node, given, self._opsets, found)
        made = [Value(n, a, constant) for n, a in zip(results, found, strict=True)]
        for value in made:
            _require_useful(value.array, operator)
        self._nodes.append(node)
        self._values |= {value.name: value for value in made}
        return made

    def model(self) -> onnx.ModelProto:
        """Return the model of the graph.

        Its outputs are the results that no node reads, and a few others.

        Raises:
            Rejected: if the graph has no results.
        """
        read = {name for node in self._nodes for name in node.input}
        made = [name for node in self._nodes for name in node.output]
        outputs = [n for n in made if n not in read and not n.startswith("c")]
        others = [n for n in made if n in read and not n.startswith("c")]
        outputs += [name for name in others if self.random.random() < 0.1]
        if not outputs:
            raise Rejected("no outputs")
        is_open = self.random.random() < 0.08
        graph = helper.make_graph(
            [n for n in self._nodes if n.op_type != "Constant" or n.output[0] in read],
            "fuzz",
            [self._info(name, is_open) for name in self._inputs if name in read],
            [self._info(name, is_output=True) for name in outputs],
            [numpy_helper.from_array(self._values[n].array, n) for n in self._initializers
             if n in read],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=self._opsets, ir_version=9)

    def _info(
        self, name: str, is_open: bool = False, *, is_output: bool = False
    ) -> onnx.ValueInfoProto:
        value = self._values[name]
        shape: list[int | str | None] = list(value.shape)
        if is_output and self.random.random() < 0.5:
            shape = [None] * len(shape)
        if is_open:
            shape = [f"d{size}" if self.random.random() < 0.4 else size for size in value.shape]
        return _tensor_info(name, value.array, shape)


def _require_agreement(
    node: onnx.NodeProto,
    given: Mapping[str, Array],
    opsets: Sequence[onnx.OperatorSetIdProto],
    found: Sequence[Array],
) -> None:
    """Raise Rejected if ONNX infers other shapes for a node than ONNX Runtime computes.

    Then it is unclear which of them is right.
    """
    if node.domain:
        return
    inputs = [_tensor_info(name, array) for name, array in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    weights = [numpy_helper.from_array(a, n) for n, a in given.items() if a.dtype.kind == "i"]
    graph = helper.make_graph([node], "node", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise Rejected(str(error)) from error
    for value, array in zip(inferred.graph.output, found, strict=True):
        kind = value.type.tensor_type
        dims = kind.shape.dim
        if kind.HasField("shape") and len(dims) != array.ndim:
            raise Rejected("ONNX infers another rank")
        for dim, size in zip(dims, array.shape, strict=False):
            if dim.HasField("dim_value") and dim.dim_value != size:
                raise Rejected("ONNX infers another shape")


def _tensor_info(
    name: str, array: Array, shape: Sequence[int | str | None] | None = None
) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if shape is None else shape)


_SATURATING = frozenset(("ReduceProd", "ReduceSumSquare"))
"""Integer reductions that saturate in ONNX Runtime, and wrap around here: ONNX defines neither."""


def _require_useful(array: Array, operator: str) -> None:
    if array.dtype.name not in _TYPES:
        raise Rejected(f"results of type {array.dtype}")
    if array.size > MOST_ELEMENTS or array.ndim > 7:
        raise Rejected("too large")
    if is_float(array.dtype):
        wide = array.astype(np.float64)
        if not np.isfinite(wide).all() or (np.abs(wide) > LARGEST).any():
            raise Rejected("not finite or large")
    elif array.dtype.kind in "iu" and (array.dtype.itemsize == 4 or operator in _SATURATING):
        limits = np.iinfo(array.dtype)
        if limits.max in array or limits.min in array:
            raise Rejected("an integer that may have overflowed")


_TYPES = {
    np.dtype(helper.tensor_dtype_to_np_dtype(kind)).name
    for kind in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16,
                 TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
                 TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32,
                 TensorProto.UINT64)
}  # fmt: skip

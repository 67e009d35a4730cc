"""Translates a region's recognized operations (``Reading``) to operators of a JSON graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.codegens.graph.functions import CASTS, write_cast, write_function
from rammer_mlir.codegens.graph.writer import GraphWriter
from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.convolutions import (
    channel_letters,
    check_windows,
    image_view,
)
from rammer_mlir.passes.regions.elementwise import FIRST_ELEMENT
from rammer_mlir.passes.regions.expressions import with_typed_constants
from rammer_mlir.passes.regions.reading import Operand, Reading
from rammer_mlir.passes.regions.region import Region
from rammer_mlir.passes.regions.weights import number_of, splat_of
from rammer_mlir.programs.json_graph import ELEMENT_TYPES, Graph, GraphTensor, Value

Namer = Callable[[Hashable], str]
"""A function from a tensor value of the IR to the name of its tensor in the graph."""

_REDUCTIONS = {
    "reduce_sum": "ReduceSum", "reduce_mean": "ReduceMean", "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_l1": "ReduceL1",
    "reduce_sum_square": "ReduceSumSquare",
}  # fmt: skip

_ANY_TYPE = ("transpose", "reshape", "slice", "concat", "pad", "broadcast")
"""Kinds of operations that copy elements without arithmetic; all element types are allowed."""


def graph_of(region: Region) -> Graph:
    """Return a region as a JSON graph; the region's value with index ``n`` becomes tensor ``vn``.

    Raises:
        NotExpressibleError: if graphs cannot express an operation, or if the region returns an
            input, or returns a value twice.
    """
    writer = GraphWriter()
    for operation in region.operations:
        if not operation.readings:
            raise NotExpressibleError(operation.name)
        for reading in operation.readings:
            write_reading(writer, reading, partial(_numbered, operation.values))
    inputs = [_tensor(n, kind) for n, kind in enumerate(region.inputs)]
    pairs = zip(region.results, region.outputs, strict=True)
    outputs = [_tensor(number, kind) for number, kind in pairs]
    if len({tensor.name for tensor in (*inputs, *outputs)}) < len(inputs) + len(outputs):
        raise NotExpressibleError("a result that is given as it is, or twice")
    return writer.graph(region.name, inputs, outputs)


def _tensor(number: int, kind: ir.Type) -> GraphTensor:
    tensor = ir.RankedTensorType(kind)
    if str(tensor.element_type) not in ELEMENT_TYPES:
        raise NotExpressibleError(str(tensor.element_type))
    return GraphTensor(f"v{number}", tuple(tensor.shape), str(tensor.element_type))


def _numbered(values: Mapping[Hashable, int], value: Hashable) -> str:
    return f"v{values[value]}"


def is_expressible(reading: Reading) -> bool:
    """Return whether the operators of JSON graphs can express an operation."""
    try:
        write_reading(GraphWriter(), reading, lambda value: f"v{hash(value)}")
    except NotExpressibleError:
        return False
    return True


def write_reading(writer: GraphWriter, reading: Reading, name_of: Namer) -> None:
    """Append to a graph the operators that compute the operation ``reading``.

    ``name_of`` maps an operand or the result to its tensor's name in the graph.

    Raises:
        NotExpressibleError: if graphs cannot express the operation.
    """
    operands = (*reading.inputs, reading.output)
    if any(0 in operand.shape for operand in operands):
        raise NotExpressibleError("no elements")
    types = {operand.element_type for operand in operands}
    is_mixed = reading.kind in _ANY_TYPE or "expression" in reading.attributes
    if types != {"f32"} and not (types <= set(CASTS) and (is_mixed or _is_contraction(reading))):
        raise NotExpressibleError(f"{reading.kind} of {', '.join(sorted(types))}")
    write = _WRITERS.get(reading.kind)
    if write is None and "expression" in reading.attributes:
        write = _write_elementwise
    elif write is None and "weight_layout" in reading.attributes:
        write = _write_convolution
    if write is None:
        raise NotExpressibleError(reading.kind)
    # Scalar operands are part of the expression; only tensors have names.
    tensors = [o for o in reading.inputs if number_of(o) is None]
    inputs = [_input(writer, operand, name_of) for operand in tensors]
    write(writer, reading, inputs, name_of(reading.output.value))


def _input(writer: GraphWriter, operand: Operand, name_of: Namer) -> str:
    """Return the name of an operand's tensor in the graph.

    If the operand is a splat constant, which is not an input of the region, append a scalar
    constant and an operator that broadcasts the scalar, and return the broadcast tensor's name.
    """
    number = splat_of(operand)
    if number is None:
        return name_of(operand.value)
    shape = writer.integers(*operand.shape)
    return writer.node("Expand", [writer.number(number, operand.element_type), shape])


def _write_convolution(
    writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str
) -> None:
    given: Mapping[str, Any] = reading.attributes
    image, weight = reading.inputs
    kernel = channel_letters(reading)
    check_windows(reading)
    channels = weight.shape[kernel.index("C")] if "C" in kernel else 1
    features = prod(weight.shape[: len(kernel)]) // channels
    x, w = inputs
    # ONNX's Conv has exactly one axis of channels, of which groups are a part.
    if image.rank != len(given["kernel"]) + 2:
        x = writer.reshape(x, image_view(reading).dims)
    if weight.shape != (features, channels, *given["kernel"]):
        w = writer.reshape(w, (features, channels, *given["kernel"]))
    is_reshaped = reading.output.rank != len(given["kernel"]) + 2
    y = _multiply(
        writer, "Conv", reading, [x, w], "" if is_reshaped else out,
        strides=list(given["strides"]), dilations=list(given["dilations"]),
        pads=list(given["pads"]), group=given["groups"],
    )  # fmt: skip
    if is_reshaped:
        writer.node("Reshape", [y, writer.integers(*reading.output.shape)], out)


def _write_pool(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    given: Mapping[str, Any] = reading.attributes
    check_windows(reading)
    # A window inside the padding has no element, for which ONNX defines no maximum or mean.
    if any(p >= k for p, k in zip(given["pads"], given["kernel"] * 2, strict=True)):
        raise NotExpressibleError("the padding of a pool")
    kind = "MaxPool" if reading.kind == "max_pool" else "AveragePool"
    include = int(given.get("count_include_pad", True))
    more = {"count_include_pad": include} if kind[0] == "A" else {}
    # ONNX has no pooling by sums: an average times the size of the window.
    is_sum = reading.kind == "sum_pool"
    found = writer.node(
        kind, inputs, "" if is_sum else out,
        kernel_shape=list(given["kernel"]), strides=list(given["strides"]),
        dilations=list(given["dilations"]), pads=list(given["pads"]), **more,
    )  # fmt: skip
    if is_sum:
        writer.node("Mul", [found, writer.number(prod(given["kernel"]))], out)


def _write_product(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    operands = list(inputs)
    for place, key in enumerate(("transpose_a", "transpose_b")):
        if reading.attributes[key]:
            order = [*range(reading.inputs[place].rank)]
            order[-2:] = order[-1], order[-2]
            operands[place] = writer.node("Transpose", [operands[place]], perm=order)
    _multiply(writer, "MatMul", reading, operands, out)


def _is_contraction(reading: Reading) -> bool:
    """Whether an operation is a matmul or convolution from i8 to i32, or from f16 to f32."""
    types = [operand.element_type for operand in (*reading.inputs, reading.output)]
    is_known = reading.kind in ("matmul", "batch_matmul") or "weight_layout" in reading.attributes
    return is_known and types in (["i8", "i8", "i32"], ["f16", "f16", "f32"])


def _multiply(
    writer: GraphWriter, op: str, reading: Reading, factors: Sequence[str], out: str,
    **attributes: Value,
) -> str:  # fmt: skip
    """Append a matmul or convolution of the tensors ``factors``; return the result's name.

    ``op`` is the operator for f32; for i8 it gets the suffix ``Integer``, and f16 is converted to
    f32. The result is named ``out``, or gets a generated name if ``out`` is empty.
    """
    kind = reading.inputs[0].element_type
    if kind == "f16":
        factors = [write_cast(writer, factor, "f32") for factor in factors]
    return writer.node(f"{op}Integer" if kind == "i8" else op, factors, out, **attributes)


def _write_reduction(
    writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str
) -> None:
    axes = _tuple(reading, "axes")
    writer.node(_REDUCTIONS[reading.kind], [*inputs, writer.integers(*axes)], out, keepdims=0)


def _write_softmax(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    axes = _tuple(reading, "axes")
    if len(axes) != 1:
        raise NotExpressibleError("a softmax along several dimensions")
    writer.node("Softmax", inputs, out, axis=axes[0])


def _write_transpose(
    writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str
) -> None:
    writer.node("Transpose", inputs, out, perm=list(_tuple(reading, "permutation")))


def _write_reshape(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    writer.node("Reshape", [*inputs, writer.integers(*reading.output.shape)], out)


def _write_slice(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    offsets, sizes, strides = (_tuple(reading, key) for key in ("offsets", "sizes", "strides"))
    parts = zip(offsets, sizes, strides, strict=True)
    # The end of a strided slice is just after its last element.
    ends = [o + (n - 1) * s + 1 for o, n, s in parts]
    bounds = [writer.integers(*values) for values in (offsets, ends, range(len(sizes)), strides)]
    part = writer.node("Slice", [*inputs, *bounds])
    # A slice in linalg may also drop dimensions of size 1.
    writer.node("Reshape", [part, writer.integers(*reading.output.shape)], out)


def _write_concat(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    axis = reading.attributes["axis"]
    assert isinstance(axis, int)
    writer.node("Concat", inputs, out, axis=axis)


def _write_pad(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    value = reading.attributes["value"]
    assert isinstance(value, float)
    widths = writer.integers(*_tuple(reading, "low"), *_tuple(reading, "high"))
    border = writer.number(value, reading.output.element_type)
    writer.node("Pad", [*inputs, widths, border], out)


def _write_fill(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    value = reading.attributes["value"]
    assert isinstance(value, float)
    shape = writer.integers(*reading.output.shape)
    writer.node("Expand", [writer.number(value), shape], out)


def _write_broadcast(
    writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str
) -> None:
    (x,) = _aligned(writer, reading, inputs)
    writer.node("Expand", [x, writer.integers(*reading.output.shape)], out)


def _write_elementwise(
    writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str
) -> None:
    given: Mapping[str, Any] = reading.attributes
    types = [o.element_type for o in reading.inputs if number_of(o) is None]
    expression = with_typed_constants(given["expression"], types)
    parameters = {k: v for k, v in given.items() if isinstance(v, float)}
    operands = _aligned(writer, reading, inputs)
    result = write_function(writer, reading.kind, expression, parameters, operands)
    whole = tuple(range(reading.output.rank))
    # A result that is an input's own tensor cannot be renamed.
    if whole in given["indexing"] and result not in operands:
        writer.rename(result, out)
    else:  # all inputs are smaller than the result: broadcast explicitly
        writer.node("Expand", [result, writer.integers(*reading.output.shape)], out)


def _write_quantize(writer: GraphWriter, reading: Reading, inputs: Sequence[str], out: str) -> None:
    whole = tuple(range(reading.output.rank))
    if reading.attributes["indexing"] != ((), whole, ()):
        _write_elementwise(writer, reading, inputs, out)
        return
    zero, x, scale = inputs
    writer.node("QuantizeLinear", [x, scale, zero], out)


def _aligned(writer: GraphWriter, reading: Reading, inputs: Sequence[str]) -> list[str]:
    """Append transposes and reshapes after which inputs broadcast to the result's shape.

    Return the names of the aligned inputs. The reshapes insert dimensions of size 1.
    """
    indexing: Any = reading.attributes["indexing"]
    pairs = zip(reading.inputs, indexing, strict=True)
    tensors = [(o, dims) for o, dims in pairs if number_of(o) is None]
    return [
        _align(writer, name, operand, dims, reading.output.rank)
        for name, (operand, dims) in zip(inputs, tensors, strict=True)
    ]


def _align(
    writer: GraphWriter, name: str, operand: Operand, dims: tuple[int, ...], rank: int
) -> str:
    if dims == tuple(range(rank)):
        return name
    kept = [place for place, dim in enumerate(dims) if dim != FIRST_ELEMENT]
    order = sorted(kept, key=lambda place: dims[place])
    # Permute first: a reshape alone cannot exchange dimensions.
    if order != kept:
        first = [place for place in range(len(dims)) if place not in kept]
        name = writer.node("Transpose", [name], perm=[*first, *order])
    shape = [1] * rank
    for place in order:
        shape[dims[place]] = operand.shape[place]
    return writer.reshape(name, shape)


def _tuple(reading: Reading, key: str) -> tuple[int, ...]:
    found: Any = reading.attributes[key]
    return found


_WRITERS: Mapping[str, Callable[[GraphWriter, Reading, Sequence[str], str], None]] = {
    "matmul": _write_product,
    "batch_matmul": _write_product,
    "max_pool": _write_pool,
    "average_pool": _write_pool,
    "sum_pool": _write_pool,
    **dict.fromkeys(_REDUCTIONS, _write_reduction),
    "softmax": _write_softmax,
    "transpose": _write_transpose,
    "reshape": _write_reshape,
    "slice": _write_slice,
    "concat": _write_concat,
    "pad": _write_pad,
    "fill": _write_fill,
    "broadcast": _write_broadcast,
    "quantize": _write_quantize,
}

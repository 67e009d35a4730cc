"""References independent of the compiler: ONNX Runtime, and ONNX's own reference in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.fuzz.arrays import Array, is_float

ROUNDING = {"float64": 2.0**-50, "float32": 2.0**-22, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""Relative error that one operator may add, by element type."""

_TRIALS = 4
"""Number of runs with disturbed numbers, which show how far rounding errors go."""


class Rejected(Exception):
    """The error of a case that cannot be tested, since a reference does not accept it."""


def run_reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model by ONNX Runtime without graph optimizations; return the outputs by name.

    Raises:
        Rejected: if ONNX Runtime refuses the model or the arrays.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = [value.name for value in model.graph.output]
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
        found: Sequence[Any] = session.run(names, dict(feeds))
    except Exception as error:  # its exceptions have no common class
        raise Rejected(str(error)) from error
    return dict(zip(names, map(np.asarray, found), strict=True))


def run_node(
    node: onnx.NodeProto, values: Mapping[str, Array], opsets: Sequence[onnx.OperatorSetIdProto]
) -> list[Array]:
    """Run a node by ONNX Runtime; return the results that have a name.

    ``values`` has the operands by name; ``opsets`` are the versions of the operator sets.

    Raises:
        Rejected: if ONNX Runtime refuses the node.
    """
    names = list(dict.fromkeys(filter(None, node.input)))
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape
        )
        for name in names
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return list(run_reference(model, {name: values[name] for name in names}).values())


def is_grid(array: Array) -> bool:
    """Return whether all elements are multiples of 1/64 below 256 in magnitude.

    Sums of a thousand such numbers are exact in f32, so that their order does not matter.
    """
    wide = array.astype(np.float64)
    return bool((np.abs(wide) < 256).all() and (wide * 64 == np.rint(wide * 64)).all())


def spread(model: onnx.ModelProto, feeds: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Return an estimate of the rounding error of each element of the outputs, by name.

    It is the largest deviation when each result that may be rounded is changed randomly by some
    units in its last place. Operands of sums are changed, too, since terms may cancel.
    """
    random = np.random.default_rng(seed)
    expected = _run_nodes(model, feeds, None)
    deviations = {name: np.zeros(value.shape) for name, value in expected.items()}
    for _ in range(_TRIALS):
        for name, value in _run_nodes(model, feeds, random).items():
            distance = np.abs(value.astype(np.float64) - expected[name].astype(np.float64))
            deviations[name] = np.maximum(deviations[name], np.nan_to_num(distance, nan=np.inf))
    return deviations


def _run_nodes(
    model: onnx.ModelProto, feeds: Mapping[str, Array], random: np.random.Generator | None
) -> dict[str, Array]:
    values = all_values(model, feeds, random)
    return {value.name: values[value.name] for value in model.graph.output}


def all_values(
    model: onnx.ModelProto, feeds: Mapping[str, Array], random: np.random.Generator | None = None
) -> dict[str, Array]:
    """Run a model node by node, and return all its values by name.

    With the generator ``random``, a random rounding error is added to each result, and to the
    operands of operators that add terms; without it, the values are exactly ONNX Runtime's.

    Raises:
        Rejected: if ONNX Runtime refuses a node.
    """
    values = dict(feeds)
    values |= {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        given = values
        if random is not None and _adds_terms(node.op_type):
            given = {name: _disturbed(values[name], random) for name in node.input if name}
        found = run_node(node, given, model.opset_import)
        for name, value in zip(filter(None, node.output), found, strict=True):
            values[name] = value if random is None else _disturbed(value, random)
    return values


_SUMS = frozenset(
    """Attention AveragePool Conv ConvTranspose Einsum FusedConv FusedGemm FusedMatMul Gemm
    GlobalAveragePool GridSample GroupNorm GroupQueryAttention GRU LSTM MatMul MatMulNBits
    MultiHeadAttention NhwcConv ReduceLogSum ReduceMean ReduceSum Resize RNN RoiAlign SkipGroupNorm
    TransposeMatMul Upsample""".split()
)
"""Operators that add terms, which may cancel: their inputs are disturbed too."""


def _adds_terms(operator: str) -> bool:
    return operator in _SUMS or operator.endswith("Normalization")


def _disturbed(value: Array, random: np.random.Generator) -> Array:
    if not is_float(value.dtype) or is_grid(value):
        return value
    relative = 1 + random.uniform(-1, 1, value.shape) * ROUNDING[value.dtype.name]
    with np.errstate(all="ignore"):
        return np.asarray(value.astype(np.float64) * relative).astype(value.dtype)


WIDENED = frozenset(
    """Abs Add And Ceil Clip Concat Constant Cos Div Einsum Equal Erf Exp Expand Flatten Floor
    Gather Gemm Greater Identity InstanceNormalization Less Log MatMul MatMulInteger Max Min Mul Neg
    Not Or Pow Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Sigmoid Sign Sin Slice Softmax Sqrt
    Squeeze Sub Sum Tanh Tile Transpose Where Xor""".split()
)
"""Operators that ONNX's reference computes by their definition."""

_NEWEST = frozenset(("Softmax",))
"""Operators of ``WIDENED`` that ONNX's reference computes only as opset 13 and later define."""


def run_wide(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs by name that ONNX's reference computes in float64.

    Only outputs that depend on operators in ``WIDENED`` alone are returned. The result is empty if
    some value does not fit f32, since f32 arithmetic then differs: for example, Ceil of a product
    that underflows is 0 instead of 1.
    """
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _keep_plain(wide)
    if not wide.graph.output:
        return {}
    values = [*wide.graph.input, *wide.graph.output, *wide.graph.value_info]
    for value in values:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    given = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
    names = [value.name for value in wide.graph.output]
    inner = [name for node in wide.graph.node for name in node.output if name]
    try:
        with np.errstate(all="ignore"):
            found: Any = ReferenceEvaluator(wide).run([*names, *inner], given)
    except Exception:  # it lacks types for which it has no word
        return {}
    arrays = list(map(np.asarray, found))
    if not all(map(_fits_f32, arrays)):
        return {}
    return dict(zip(names, arrays, strict=False))


def _fits_f32(array: Array) -> bool:
    """Whether no element of a float64 array overflows or underflows in f32."""
    if array.dtype != np.float64:
        return True
    sizes = np.abs(array[np.isfinite(array) & (array != 0)])
    limits = np.finfo(np.float32)
    return bool(((sizes > limits.smallest_normal) & (sizes < limits.max)).all())


_NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def _keep_plain(model: onnx.ModelProto) -> None:
    """Remove nodes that ONNX's reference cannot compute reliably in float64.

    These are nodes that are not in ``WIDENED``, that read 16-bit floats, or that depend on such
    nodes.
    """
    is_old = any(not opset.domain and opset.version < 13 for opset in model.opset_import)
    known = WIDENED - _NEWEST if is_old else WIDENED
    kept: list[onnx.NodeProto] = []
    # Narrow values stay narrow in the reference, which overflows where an operator adds in f32.
    given = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    given |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    lost = {name for name, kind in given.items() if kind in _NARROW}
    for node in model.graph.node:
        if node.op_type in known and not node.domain and lost.isdisjoint(node.input):
            kept.append(node)
        else:
            lost.update(node.output)
    outputs = [value for value in model.graph.output if value.name not in lost]
    infos = [value for value in model.graph.value_info if value.name not in lost]
    _replace(model.graph.node, kept)
    _replace(model.graph.output, outputs)
    _replace(model.graph.value_info, infos)


def _replace(items: Any, kept: Sequence[onnx.NodeProto] | Sequence[onnx.ValueInfoProto]) -> None:
    """Replace the items of a repeated protobuf field by copies of ``kept``."""
    copies = [type(item).FromString(item.SerializeToString()) for item in kept]
    del items[:]
    items.extend(copies)

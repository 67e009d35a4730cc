"""Checks a contrib operator in a model of one node: its results must equal ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cpu_runner
import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx import import_model

Array = NDArray[Any]
Given = Sequence[Array | None]


def contrib_model(
    operator: str,
    inputs: Given,
    *,
    constants: Sequence[int] = (),
    results: Sequence[type[np.generic] | None] = (np.float32,),
    version: int = 17,
    domain: str = "com.microsoft",
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node of a contrib operator.

    Args:
        operator: name of the operator.
        inputs: arrays whose types and shapes the inputs have; None for omitted inputs.
        constants: indices of the inputs that are initializers.
        results: element types of the outputs; None for omitted outputs.
        version: version of ONNX's operators.
        domain: domain of the operator.
        attributes: attributes of the node.
    """
    names = ["" if array is None else f"in{i}" for i, array in enumerate(inputs)]
    outputs = ["" if kind is None else f"out{i}" for i, kind in enumerate(results)]
    node = helper.make_node(operator, names, outputs, "the_node", domain=domain, **attributes)
    given = [(names[i], i in constants, a) for i, a in enumerate(inputs) if a is not None]
    graph = helper.make_graph(
        [node],
        "test",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, is_constant, a in given
            if not is_constant
        ],
        [
            helper.make_tensor_value_info(
                f"out{i}", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None
            )
            for i, kind in enumerate(results)
            if kind is not None
        ],
        [numpy_helper.from_array(a, n) for n, is_constant, a in given if is_constant],
    )
    opsets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def seven_bits(weights: Array) -> Array:
    """Return weights of int8 halved, and other weights as they are.

    With 8 bits, ONNX Runtime's sums can overflow: on x86-64 without VNNI, it adds pairs of products
    of uint8 and int8 in 16 bits.
    """
    return weights // 2 if weights.dtype == np.int8 else weights


def check_contrib(
    operator: str, inputs: Given, *, tolerance: float = 1e-5, steps: int = 0, **details: Any
) -> None:
    """Check that the results of a contrib operator's node equal ONNX Runtime's.

    Args:
        operator: name of the operator.
        inputs: arrays; None for omitted inputs.
        tolerance: relative and absolute tolerance of floats.
        steps: largest difference of integers.
        details: other arguments of ``contrib_model``.
    """
    model = contrib_model(operator, inputs, **details)
    taken = {value.name for value in model.graph.input}
    feeds = {f"in{i}": a for i, a in enumerate(inputs) if a is not None and f"in{i}" in taken}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # several make DynamicQuantizeLSTM's results others
    session = ort.InferenceSession(model.SerializeToString(), options)
    names = [value.name for value in model.graph.output]
    expected = dict(zip(names, session.run(names, feeds), strict=True))
    found = cpu_runner.run(import_model(model), feeds)
    for name, value in expected.items():
        wanted = np.asarray(value)
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
        limit = steps if wanted.dtype.kind in "iu" else tolerance
        np.testing.assert_allclose(
            found[name].astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=limit
        )

"""Checks a node in a model of its own: its results must equal the reference's.

The reference is ONNX Runtime, or ONNX's reference evaluator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cpu_runner
import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rammer_mlir.bindings import ir
from rammer_mlir.frontends.onnx import ImportedModel, import_model

Array = NDArray[Any]


def floats(*shape: int, seed: int = 0) -> Array:
    """Return normally distributed float32 numbers, drawn with the random seed ``seed``."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def node_model(
    operator: str,
    inputs: Sequence[Array | None],
    *,
    constants: Sequence[int] = (),
    outputs: int = 1,
    opset: int = 21,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node.

    Args:
        operator: name of the operator, of ONNX's own domain.
        inputs: arrays whose types and shapes the inputs have; None for omitted inputs.
        constants: indices of the inputs that are initializers.
        outputs: number of outputs.
        opset: version of ONNX's operators.
        attributes: attributes of the node.
    """
    names = ["" if array is None else f"in{i}" for i, array in enumerate(inputs)]
    results = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, results, "the_node", **attributes)
    given = [(i, a) for i, a in enumerate(inputs) if a is not None]
    graph = helper.make_graph(
        [node],
        "test",
        [
            helper.make_tensor_value_info(
                names[i], helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
            )
            for i, a in given
            if i not in constants
        ],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(a, names[i]) for i, a in given if i in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value in inferred.graph.output:
        if not value.type.HasField("tensor_type"):
            value.type.CopyFrom(inferred.graph.input[0].type)
        value.type.tensor_type.ClearField("shape")  # what ONNX infers is not always right
    return inferred


def expected_outputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model by ONNX Runtime, or by ONNX's reference if ONNX Runtime lacks an operator."""
    names = [value.name for value in model.graph.output]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
        values: Sequence[Any] = session.run(names, dict(feeds))
    except Exception:  # ONNX Runtime raises exceptions of its own for what it does not know
        values = ReferenceEvaluator(model).run(names, dict(feeds))  # type: ignore[assignment]
    return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}


def check_node(
    operator: str, inputs: Sequence[Array | None], *, tolerance: float = 1e-4, **details: Any
) -> str:
    """Check that a node's results equal the reference's; return the imported IR as text.

    Args:
        operator: name of the operator, of ONNX's own domain.
        inputs: arrays; None for omitted inputs.
        tolerance: relative and absolute tolerance.
        details: other arguments of ``node_model``.
    """
    model = node_model(operator, inputs, **details)
    constants: Sequence[int] = details.get("constants", ())
    feeds = {
        f"in{i}": array
        for i, array in enumerate(inputs)
        if array is not None and i not in constants
    }
    imported = import_model(model)
    found = cpu_runner.run(imported, feeds)
    for name, expected in expected_outputs(model, feeds).items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_allclose(
            found[name].astype(np.float64),
            expected.astype(np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=f"{operator}: {name}",
        )
    return module_text(imported)


def run_node(operator: str, inputs: Sequence[Array | None], **details: Any) -> dict[str, Array]:
    """Import and run a node; return the outputs by name.

    ``details`` are other arguments of ``node_model``.
    """
    feeds = {f"in{i}": array for i, array in enumerate(inputs) if array is not None}
    return cpu_runner.run(import_model(node_model(operator, inputs, **details)), feeds)


def module_text(model: ImportedModel) -> str:
    """Return the IR of an imported model as text with source locations."""
    with ir.Context():
        return ir.Module.parse(model.bytecode).operation.get_asm(enable_debug_info=True)

"""Helpers that compile models and compare their outputs with ONNX Runtime's.

The models are those that the host must run in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.runtime.compiled import RunnableModel

Feeds = Mapping[str, Any]


def model_of(text: str, version: int = 17) -> onnx.ModelProto:
    """Parse a graph, ``(inputs) => (outputs) {nodes}``; check and return its model."""
    header = f'<ir_version: 8, opset_import: ["": {version}]>'
    model = onnx.parser.parse_model(f"{header} g {text}")
    onnx.checker.check_model(model)
    return model


def floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Return normally distributed float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def reference(model: onnx.ModelProto, feeds: Feeds) -> dict[str, Any]:
    """Return the outputs that ONNX Runtime computes, by name."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in model.graph.output]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _numbered(values: Sequence[Any]) -> dict[int, Any]:
    return dict(enumerate(values))


def assert_equal(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
    """Check that outputs have equal names, types and shapes, and close values."""
    assert list(found) == list(expected)
    for name, value in expected.items():
        if isinstance(value, list):
            assert_equal(_numbered(found[name]), _numbered(value))
            continue
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=str(name))


def check(
    model: onnx.ModelProto,
    runs: Sequence[Feeds],
    *,
    target: str = "cpu",
    emulate: bool = False,
    num_veus: int = 2,
) -> RunnableModel:
    """Compile a model, compare each run's outputs with ONNX Runtime's, and return the model."""
    made = rammer_mlir.compile(
        model,
        target=target,
        emulate=emulate,
        num_veus=num_veus,
        cache=False,
        specializations=16,
    )
    for feeds in runs:
        assert_equal(made.run(feeds), reference(model, feeds))
    return made


def hosted(
    model: onnx.ModelProto, runs: Sequence[Feeds], *, target: str = "cpu", emulate: bool = False
) -> HostedModel:
    """Check a model that the host must run in parts, and return the compiled model."""
    made = check(model, runs, target=target, emulate=emulate)
    assert isinstance(made, HostedModel)
    return made

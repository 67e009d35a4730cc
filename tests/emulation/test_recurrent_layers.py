"""Tests that recurrent layers on emulated GPUs give ONNX Runtime's results.

A layer multiplies the inputs of a few time steps at a time by its weights.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import random_feeds
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FEATURES, HIDDEN = 6, 8


def layer(kind: str, steps: int, batch: int, *, attributes: str = "") -> onnx.ModelProto:
    """Return a bidirectional layer; its results are all time steps' outputs and the last states."""
    rng = np.random.default_rng(steps)
    model = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 17]>
        layer (float[{steps},{batch},{FEATURES}] x)
            => (float[{steps},2,{batch},{HIDDEN}] y, float[2,{batch},{HIDDEN}] h) {{
          y, h = {kind} <hidden_size={HIDDEN}, direction="bidirectional" {attributes}> (x, w, r, b)
        }}""")
    rows = GATES[kind] * HIDDEN
    shapes = {"w": (2, rows, FEATURES), "r": (2, rows, HIDDEN), "b": (2, 2 * rows)}
    for name, shape in shapes.items():
        values = rng.uniform(-0.5, 0.5, shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


@pytest.mark.parametrize("batch", [1, 3, 9])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("LSTM", ""), ("GRU", ""), ("GRU", ", linear_before_reset=1"), ("RNN", "")],
)
def test_projections_in_parts(kind: str, attributes: str, batch: int) -> None:
    """A layer of 19 time steps multiplies the inputs of a few steps at a time by its weights.

    The results are right, though the last product may have fewer time steps.
    """
    model = layer(kind, 19, batch, attributes=attributes)
    options = check_options("nvvm:sm_90", policy="wavefront", num_veus=3)
    operators = Compilation.of_model(model, options).emit("operators").decode()
    assert f"tensor<{19 * batch}x{GATES[kind] * HIDDEN}xf32>" not in operators
    executable = rammer_mlir.compile(
        model, target="nvvm:sm_90", num_veus=3, emulate=True, check=True
    )
    reference = OnnxRuntime(model)
    for seed in (1, 2):
        feeds = random_feeds(model, seed)
        comparison = compare(reference.run(feeds), executable.run(feeds))
        assert comparison.ok, str(comparison)

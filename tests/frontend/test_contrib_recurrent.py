"""Tests that the contrib operator DynamicQuantizeLSTM gives ONNX Runtime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contrib_checks import Array, check_contrib, contrib_model, seven_bits

import rammer_mlir
from rammer_mlir.errors import ModelError, UnsupportedError
from rammer_mlir.frontends.onnx import import_model

FEATURES, HIDDEN = 5, 8
RESULTS = [np.float32] * 3


def lstm_inputs(
    steps: int, batch: int, directions: int = 1, kind: type[Any] = np.int8, columns: int = 1
) -> list[Array | None]:
    """Return the inputs of a DynamicQuantizeLSTM.

    Args:
        steps: number of steps.
        batch: number of sequences.
        directions: number of directions, 1 or 2.
        kind: element type of the weights.
        columns: number of scales of each weight matrix: 1, or its number of columns.
    """
    rng = np.random.default_rng(0)
    limits = np.iinfo(kind)
    scales = (directions,) if columns == 1 else (directions, columns)

    def weight(rows: int) -> Array:
        shape = (directions, rows, 4 * HIDDEN)
        values = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
        return seven_bits(values)

    def real(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    scale = (0.003 + 0.002 * rng.random(scales)).astype(np.float32)
    zero = np.full(scales, 0 if kind is np.int8 else 128, kind)
    states = [real(directions, batch, HIDDEN) for _ in range(2)]
    weights = [weight(FEATURES), weight(HIDDEN), real(directions, 8 * HIDDEN)]
    quantization = [scale, zero, scale, zero]
    return [real(steps, batch, FEATURES), *weights, None, *states, None, *quantization]


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_quantized_lstm(direction: str, kind: type[Any]) -> None:
    directions = 2 if direction == "bidirectional" else 1
    inputs = lstm_inputs(3, 2, directions, kind)
    details: dict[str, Any] = {"direction": direction, "hidden_size": HIDDEN}
    check_contrib("DynamicQuantizeLSTM", inputs, constants=range(1, 12), results=RESULTS, **details)


def test_quantized_lstm_with_scales_of_columns() -> None:
    inputs = lstm_inputs(3, 1, columns=4 * HIDDEN)
    inputs[3] = inputs[5] = inputs[6] = None  # neither bias nor states
    constants = [1, 2, 8, 9, 10, 11]
    check_contrib(
        "DynamicQuantizeLSTM", inputs, constants=constants, results=RESULTS, hidden_size=HIDDEN
    )


def test_a_long_quantized_lstm_is_repeated_by_the_host() -> None:
    inputs = lstm_inputs(100, 1)
    model = contrib_model(
        "DynamicQuantizeLSTM", inputs, constants=range(1, 12), results=RESULTS, hidden_size=HIDDEN
    )
    compiled = rammer_mlir.compile(model)
    assert "repeat" in compiled.summary  # pyright: ignore[reportAttributeAccessIssue]
    assert compiled.run({"in0": inputs[0]})["out0"].shape == (100, 1, 1, HIDDEN)


def test_a_quantized_lstm_of_other_functions_is_refused() -> None:
    inputs, names = lstm_inputs(3, 1), ["Tanh", "Tanh", "Tanh"]
    model = contrib_model("DynamicQuantizeLSTM", inputs, hidden_size=HIDDEN, activations=names)
    with pytest.raises(UnsupportedError, match="attribute 'activations': expected"):
        import_model(model)
    model = contrib_model("DynamicQuantizeLSTM", inputs, hidden_size=4)
    with pytest.raises(ModelError, match=r"expected R of shape \(1, 4, 16\), found \(1, 8, 32\)"):
        import_model(model)

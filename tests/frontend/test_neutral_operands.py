"""Tests that nodes that a constant operand makes superfluous are not in the imported program."""

from __future__ import annotations

import numpy as np
import pytest
from node_checks import check_node, floats, module_text, node_model

import rammer_mlir
from rammer_mlir.frontends.onnx import import_model


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("shape", [(1,), (4, 1), (2, 4, 5)])
def test_a_condition_that_always_chooses_the_same_operand(
    chosen: bool, shape: tuple[int, ...]
) -> None:
    inputs = [np.full(shape, chosen), floats(2, 4, 5), floats(5, seed=1)]
    assert "arith.select" not in check_node("Where", inputs, constants=[0])


def test_a_condition_that_varies() -> None:
    condition = np.arange(20).reshape(4, 5) % 3 == 0
    inputs = [condition, floats(2, 4, 5), floats(5, seed=1)]
    assert "arith.select" in check_node("Where", inputs, constants=[0])


@pytest.mark.parametrize("zeros", [0, 1])
@pytest.mark.parametrize("shape", [(40, 50), (3, 40, 50)])
def test_many_zeros_are_not_added(zeros: int, shape: tuple[int, ...]) -> None:
    inputs = [floats(40, 50), np.zeros(shape, np.float32)]
    if not zeros:
        inputs.reverse()
    assert "arith.addf" not in check_node("Add", inputs, constants=[zeros])


def test_a_value_that_begins_with_zeros_is_added() -> None:
    some = np.zeros((40, 50), np.float32)
    some[-1] = 1
    assert "arith.addf" in check_node("Add", [floats(40, 50), some], constants=[1])


def test_an_attention_without_mask_adds_no_mask() -> None:
    """Attention without a mask is imported without operations for a mask.

    ONNX defines it by a mask of zeros, and by zeros for rows without a key; there are none.
    """
    shape = (1, 2, 40, 8)
    model = node_model("Attention", [floats(*shape, seed=n) for n in range(3)], opset=24)
    text = module_text(import_model(model))
    assert "arith.select" not in text and "40x40xi1" not in text
    feeds = {f"in{n}": floats(*shape, seed=n) for n in range(3)}
    q, k, v = (feeds[f"in{n}"].astype(np.float64) for n in range(3))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(8)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    found = rammer_mlir.compile(model, cache=False).run(feeds)["out0"]
    np.testing.assert_allclose(found, weights @ v, rtol=1e-4, atol=1e-5)

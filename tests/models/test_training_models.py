"""Tests that training steps of Dali's models and of LSTM-TC have the right gradients.

The references are PyTorch and ONNX Runtime.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import run
from rammer_mlir.benchmarks.models import random_feeds
from rammer_mlir.benchmarks.models.gradients import (
    GRADIENT,
    UPDATED,
    TrainingStep,
    in_double,
    training_step,
)
from rammer_mlir.benchmarks.models.training_models import (
    TRAINING_MODELS,
    build_forward,
    build_step,
)
from rammer_mlir.errors import OptionError
from tests.models.test_gradients import check_directions, evaluate

SEED = 1
REFERENCE = Path(__file__).with_name("torch_gradients.json")
"""Losses and gradients of the small models by PyTorch 2.15, in 64 bits, on inputs of ``SEED``.

For each gradient, the file has the norm, and the product with the cosines of 0, 1, 2, ...
"""

RELATIVE = 1e-3
ROUNDING = 1e-6
"""Largest rounding error of a gradient, relative to the largest gradient.

The gradient of the keys' bias consists of such errors, because softmax ignores that bias.
"""


@cache
def gradients(name: str) -> TrainingStep:
    return build_step(name, "small", rate=None)


@pytest.mark.parametrize("name", TRAINING_MODELS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    expected = json.loads(REFERENCE.read_text(encoding="utf-8"))[name]
    step = gradients(name)
    found = run(step.model, step.feeds(SEED))
    assert float(found["loss"]) == pytest.approx(expected["loss"], rel=1e-5)
    slopes = {key[len(GRADIENT) :]: a for key, a in found.items() if key.startswith(GRADIENT)}
    assert slopes.keys() == expected["gradients"].keys()
    least = ROUNDING * max(norm for norm, _ in expected["gradients"].values())
    for key, (norm, projection) in expected["gradients"].items():
        slope = np.asarray(slopes[key], np.float64).reshape(-1)
        within = RELATIVE * norm + least
        assert abs(float(np.linalg.norm(slope)) - norm) <= within, key
        assert abs(float(slope @ np.cos(np.arange(slope.size))) - projection) <= within, key


@pytest.mark.parametrize("name", ["dali_transformer", "mlstm"])
def test_gradients_of_models_are_differences(name: str) -> None:
    """Gradients of whole models equal finite differences.

    Other tests compare gradients with PyTorch's. Together, the two models need the gradients of all
    operators on sequences.
    """
    model = in_double(build_forward(name, "small"))
    chosen = {"mlstm": ["table", "cell/weight_1", "cell/gain_3"],
              "dali_transformer": ["table", "layer1/attention/weight", "layer2/scale"]}  # fmt: skip
    step = training_step(model, weights=chosen[name], rate=None)
    check_directions(step, step.feeds(SEED))


@pytest.mark.parametrize("name", TRAINING_MODELS)
def test_compiled_steps_equal_onnx_runtime(name: str) -> None:
    """Compiled training steps give ONNX Runtime's gradients.

    Updated weights would be no test, because they hardly differ from the weights themselves.
    """
    step = gradients(name)
    feeds = step.feeds(SEED)
    with rammer_mlir.compile(step.model, num_veus=2, cache=False) as executable:
        comparison = compare(
            _meaningful(run(step.model, feeds)), _meaningful(executable.run(feeds))
        )
    assert comparison.ok, str(comparison)


def _meaningful(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs, except gradients that consist of rounding errors.

    These are arrays whose norm is at most ``ROUNDING`` times the largest norm of the outputs.
    """
    largest = max(float(np.linalg.norm(array)) for array in outputs.values())
    return {n: a for n, a in outputs.items() if np.linalg.norm(a) > ROUNDING * largest}


@pytest.mark.parametrize("name", TRAINING_MODELS)
def test_forward_models_return_the_same_loss(name: str) -> None:
    model = build_forward(name, "small")
    onnx.checker.check_model(model, full_check=True)
    step = gradients(name)
    onnx.checker.check_model(step.model, full_check=True)
    feeds = step.feeds(SEED)
    inputs = {info.name: feeds[info.name] for info in model.graph.input}
    (loss,) = run(model, inputs).values()
    assert float(run(step.model, feeds)["loss"]) == pytest.approx(float(loss), rel=1e-6)


@pytest.mark.parametrize("name", ["dali_cnn", "mlstm"])
def test_compiled_steps_train(name: str) -> None:
    """A compiled training step, run repeatedly on the weights that it updates, reduces the loss."""
    step = build_step(name, "small", rate={"dali_cnn": 0.05, "mlstm": 0.5}[name])
    feeds = step.feeds(SEED)
    losses: list[float] = []
    with rammer_mlir.compile(step.model, num_veus=1, cache=False) as executable:
        for _ in range(8):
            after = executable.run(feeds)
            losses.append(float(after["loss"]))
            feeds.update({weight: after[UPDATED + weight] for weight in step.weights})
    assert losses[-1] < 0.8 * losses[0], losses


def test_published_sizes() -> None:
    """Models that are quick to build have the sizes that the appendix of Dali's paper states."""
    shapes = {
        t.name: list(t.dims) for t in build_forward("dali_cnn").graph.initializer if len(t.dims) > 1
    }
    convolutions = [[64, 1, 5, 5], [64, 64, 5, 5], [64, 64, 2, 2]]
    dense = [[1024, 3136], [10, 1024]]
    assert [s for n, s in shapes.items() if n.startswith("weight")] == convolutions + dense
    transformer = build_forward("dali_transformer")
    layers = {node.name.split("/")[0] for node in transformer.graph.node if "layer" in node.name}
    assert len(layers) == 8
    assert [i.type.tensor_type.shape.dim[1].dim_value for i in transformer.graph.input] == [100] * 2


def test_the_published_loss_is_the_stable_one() -> None:
    model = build_forward("softmax_cross_entropy", "small")
    feeds: dict[str, Any] = dict(random_feeds(model))
    logits, labels = np.asarray(feeds["logits"], np.float64), np.asarray(feeds["label"], np.int64)
    scores = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = -np.take_along_axis(scores, labels[..., np.newaxis], -1).mean()
    assert float(evaluate(model, feeds)["loss"]) == pytest.approx(expected, rel=1e-5)


def test_unknown_training_model_is_refused() -> None:
    with pytest.raises(OptionError, match="found 'dali_cn'"):
        build_step("dali_cn")

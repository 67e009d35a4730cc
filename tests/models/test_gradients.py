"""Tests that gradients equal finite differences in float64.

Training steps subtract the gradients from the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from rammer_mlir.benchmarks.contenders.onnx_runtime import run
from rammer_mlir.benchmarks.models.builder import GraphBuilder
from rammer_mlir.benchmarks.models.gradients import (
    GRADIENT,
    UPDATED,
    TrainingStep,
    in_double,
    trained_weights,
    training_step,
)
from rammer_mlir.benchmarks.models.gradients.rules import RULES
from rammer_mlir.errors import ModelError
from tests.models.gradient_cases import CASES, build_case

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]
STEP = 1e-5
CLOSE = 1e-6


class Erf(OpRun):
    """The error function in 64 bits; ONNX's reference evaluator rounds its results to 32 bits."""

    op_domain: ClassVar[str] = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


class Gelu(OpRun):
    """Gelu in 64 bits; ONNX's reference evaluator expands Gelu into an Erf in 32 bits."""

    op_domain: ClassVar[str] = ""

    def _run(self, x: Array, approximate: str = "none") -> tuple[Array]:
        assert approximate == "none"
        return (x * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x * math.sqrt(0.5))) / 2,)


def evaluate(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Array]:
    """Return a model's outputs by name, computed by ONNX's reference evaluator.

    Models with MaxPool are computed by ONNX Runtime.
    """
    if any(node.op_type == "MaxPool" for node in model.graph.node):
        return run(model, feeds)  # the reference gives wrong indices where there are pads
    results = ReferenceEvaluator(model, new_ops=[Erf, Gelu]).run(None, dict(feeds))
    assert isinstance(results, list)
    return dict(zip([info.name for info in model.graph.output], results, strict=True))


def check_directions(step: TrainingStep, feeds: Mapping[str, Any], seed: int = 0) -> None:
    """Check the gradient of the loss with respect to each weight of a training step.

    For a random direction in the space of the weight, the derivative that the gradient gives is
    compared with a finite difference of the loss.
    """
    rng = np.random.default_rng(seed)
    found = evaluate(step.model, feeds)
    for name, given in step.weights.items():
        weight = np.asarray(given, np.float64)
        direction = rng.standard_normal(weight.shape)
        ends = [
            evaluate(step.model, {**feeds, name: weight + sign * STEP * direction})["loss"]
            for sign in (1, -1)
        ]
        difference = float(ends[0] - ends[1]) / (2 * STEP)
        derivative = float((found[GRADIENT + name] * direction).sum())
        scale = float(np.abs(found[GRADIENT + name] * direction).sum())
        assert abs(derivative - difference) <= CLOSE * scale, (name, derivative, difference)
        assert scale > 0


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_operators_are_differences(name: str) -> None:
    model, by = build_case(name)
    step = training_step(in_double(model), weights=by, rate=None)
    onnx.checker.check_model(step.model, full_check=True)
    assert all(step.weights[each].dtype == np.float64 for each in by)
    check_directions(step, step.feeds())


def test_sums_of_gradients_are_of_plain_terms() -> None:
    """The gradient of a division negates a sum of terms instead of summing negated terms.

    The sum of negated terms would be a reduction that subtracts from its accumulator.
    """
    model, by = build_case("Div")
    nodes = training_step(model, weights=by, rate=None).model.graph.node
    makers = {node.output[0]: node.op_type for node in nodes}
    summed = [makers.get(n.input[0]) for n in nodes if n.op_type == "ReduceSum"]
    assert len(summed) > 1 and "Neg" not in summed


def test_every_rule_has_a_case() -> None:
    assert {name.partition(",")[0] for name in CASES} == set(RULES)


def linear_model() -> onnx.ModelProto:
    """Return a model whose loss is the mean square of a linear layer's outputs."""
    g = GraphBuilder("linear", seed=1)
    y = g.linear(g.input("x", [4, 3]), 2)
    g.output(y, "y")
    g.output(g.op("ReduceMean", g.op("Mul", y, y), keepdims=0), "loss")
    return g.finish()


def test_a_step_returns_the_loss_and_the_weights_after_it() -> None:
    model = linear_model()
    step, gradients = training_step(model, rate=0.5), training_step(model, rate=None)
    assert [info.name for info in step.model.graph.input] == ["x", "weight", "bias"]
    names = [info.name for info in step.model.graph.output]
    assert names == ["loss", f"{UPDATED}weight", f"{UPDATED}bias"]
    feeds = step.feeds()
    after, slopes = evaluate(step.model, feeds), evaluate(gradients.model, feeds)
    for name, given in step.weights.items():
        expected = np.asarray(given, np.float32) - np.float32(0.5) * slopes[GRADIENT + name]
        np.testing.assert_allclose(after[UPDATED + name], expected, rtol=1e-6)
    # By hand: the bias's gradient is the mean of 2 * y over the elements of a column.
    x, weight, bias = (np.asarray(feeds[name], np.float64) for name in ("x", "weight", "bias"))
    y = x @ weight + bias
    np.testing.assert_allclose(slopes[f"{GRADIENT}bias"], 2 * y.sum(axis=0) / y.size, rtol=1e-5)


def test_steps_make_the_loss_smaller() -> None:
    step = training_step(linear_model(), rate=0.2)
    feeds = step.feeds()
    losses: list[float] = []
    for _ in range(5):
        after = evaluate(step.model, feeds)
        losses.append(float(after["loss"]))
        feeds.update({name: after[UPDATED + name] for name in step.weights})
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.7 * losses[0]


def test_what_no_output_needs_is_left_out() -> None:
    model = linear_model()
    step = training_step(model, weights=["bias"])
    products = [node for node in step.model.graph.node if node.op_type == "MatMul"]
    assert len(products) == 1  # neither the weight's gradient nor that of the input
    assert [t.name for t in step.model.graph.initializer if t.name == "weight"] == ["weight"]
    assert step.weights.keys() == {"bias"}


def test_weights_are_known_by_what_builders_call_them() -> None:
    g = GraphBuilder("names")
    with g.scope("layer"):
        kept = [g.constant(np.ones(2, np.float32), stem) for stem in ("weight", "bias", "weight")]
        other = g.constant(np.ones(2, np.float32), "zero_state")
    g.output(g.op("Sum", *kept, other), "y")
    assert trained_weights(g.finish()) == ["layer/weight", "layer/bias", "layer/weight_1"]


def refused(model: onnx.ModelProto, **options: object) -> str:
    with pytest.raises(ModelError) as caught:
        training_step(model, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_models_without_gradients_are_refused() -> None:
    g = GraphBuilder("floor")
    weight = g.constant(np.ones(3, np.float32), "weight")
    g.output(g.op("ReduceSum", g.op("Floor", weight), keepdims=0), "loss")
    g.output(g.op("Neg", weight), "many")
    model = g.finish()
    assert refused(model).startswith("node 'Floor': expected an operator with a gradient, found")
    assert "expected one element, found shape [3]" in refused(model, loss="many")
    assert "value 'lost': expected a value of the model" in refused(model, loss="lost")
    old = onnx.ModelProto()
    old.CopyFrom(model)
    old.opset_import[0].version = 13
    assert "gradients need version 18 or newer, found 13" in refused(old)


def test_weights_that_do_not_matter_are_refused() -> None:
    g = GraphBuilder("two")
    first, second = (g.constant(np.ones(1, np.float32), "weight") for _ in range(2))
    g.output(g.op("Neg", first), "loss")
    g.output(g.op("Neg", second), "other")
    assert "'weight_1': expected a value that the loss 'loss' depends on" in refused(g.finish())


def test_grouped_convolutions_are_refused() -> None:
    g = GraphBuilder("grouped")
    x = g.input("x", [1, 4, 5, 5])
    g.output(g.op("ReduceSum", g.conv(x, 4, 3, groups=2), keepdims=0), "loss")
    text = refused(g.finish())
    assert text.startswith("node 'Conv' (Conv): gradients need group 1, found 2")

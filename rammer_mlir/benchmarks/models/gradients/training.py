"""Make a training step as a single model: forward, loss, gradients, and the updated weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from rammer_mlir.benchmarks.models.feeds import random_feeds
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph
from rammer_mlir.benchmarks.models.gradients.reverse import add_gradients

Array = npt.NDArray[np.generic]

GRADIENT, UPDATED = "gradient:", "new:"
"""Prefixes of the outputs' names, before a weight's name."""

TRAINED = ("weight", "bias", "scale", "kernel", "recurrent", "table", "gain")
"""Names that the builders give to trained constants; other constants are limits, zeros, shapes."""


@dataclass(frozen=True)
class TrainingStep:
    """A training step and its initial weights.

    Attributes:
        model: takes the forward model's inputs and its weights, by their names; returns the loss,
            and for each weight ``new:NAME`` or ``gradient:NAME``.
        weights: the forward model's weights, by the names of the inputs that replace them.
    """

    model: onnx.ModelProto
    weights: Mapping[str, Array]

    def feeds(self, seed: int = 0) -> dict[str, Array]:
        """Return random inputs, as ``random_feeds`` does, with the forward model's weights."""
        data = [info for info in self.model.graph.input if info.name not in self.weights]
        only_data = onnx.ModelProto(graph=onnx.GraphProto(input=data))
        return {**random_feeds(only_data, seed), **self.weights}


def trained_weights(model: onnx.ModelProto) -> list[str]:
    """Return the names of the initializers of a model that are trained.

    An initializer is trained if its name ends in a word of ``TRAINED``, such as "weight" in
    ``conv/weight_3``.
    """
    return [t.name for t in model.graph.initializer if _stem(t.name) in TRAINED]


def _stem(name: str) -> str:
    stem, _, number = name.rsplit("/", 1)[-1].rpartition("_")
    return stem if stem and number.isdigit() else name.rsplit("/", 1)[-1]


def training_step(
    model: onnx.ModelProto,
    loss: str = "loss",
    weights: Sequence[str] | None = None,
    *,
    rate: float | None = 0.01,
) -> TrainingStep:
    """Make a step of stochastic gradient descent from a model that returns its loss.

    Args:
        model: forward model of static shapes, with weights as initializers.
        loss: name of an output with one element; other outputs are dropped.
        weights: names of the trained weights: initializers, or float inputs of the model; by
            default those that ``trained_weights`` returns.
        rate: learning rate: the new weights are the old weights minus ``rate`` times the gradients;
            with None, the gradients are the outputs.

    Raises:
        ModelError: if the loss cannot be differentiated by the weights.
    """
    chosen = trained_weights(model) if weights is None else list(weights)
    g = ExtendedGraph(model, chosen)
    with g.scope("backward"):
        for name, gradient in add_gradients(g, loss, chosen).items():
            if rate is None:
                g.output(g.op("Identity", gradient), GRADIENT + name)
            else:
                change = g.op("Mul", gradient, g.scalar(rate, gradient))
                g.output(g.op("Sub", g.value(name), change), UPDATED + name)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return TrainingStep(g.finish_with([loss]), {n: arrays[n] for n in chosen if n in arrays})


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model with f64 in place of f32, for finite differences."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for tensor in found.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for info in (*found.graph.input, *found.graph.output):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in found.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return found

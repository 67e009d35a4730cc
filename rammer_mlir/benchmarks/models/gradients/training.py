"""Make a model that is a training step: forward, loss, gradients, and updated weights."""

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
        model: the training step. Its inputs are those of the forward model and the weights, which
            keep their names. Its outputs are the loss and, for each weight, ``new:NAME`` (the
            updated weight) or ``gradient:NAME``.
        weights: the initial weights, keyed by the names of the inputs of ``model``.
    """

    model: onnx.ModelProto
    weights: Mapping[str, Array]

    def feeds(self, seed: int = 0) -> dict[str, Array]:
        """Return the feeds of a run: the initial weights, and data that ``random_feeds`` draws."""
        data = [info for info in self.model.graph.input if info.name not in self.weights]
        only_data = onnx.ModelProto(graph=onnx.GraphProto(input=data))
        return {**random_feeds(only_data, seed), **self.weights}


def trained_weights(model: onnx.ModelProto) -> list[str]:
    """Return the names of a model's initializers that are trained.

    An initializer is trained if the last component of its name, without a numeric suffix, is in
    ``TRAINED``: for example ``conv/weight_3``, because "weight" is in ``TRAINED``.
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
    """Make a step of stochastic gradient descent from a forward model that returns its loss.

    Args:
        model: forward model of static shapes, with weights as initializers.
        loss: name of an output with one element; other outputs are dropped.
        weights: names of the trained weights, which are initializers or float inputs of the model;
            None stands for those that ``trained_weights`` returns.
        rate: learning rate. The step returns the weights minus ``rate`` times their gradients. If
            ``rate`` is None, the step returns the gradients.

    Raises:
        ModelError: if the loss cannot be differentiated with respect to the weights.
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
    """Return a copy of a model with f64 instead of f32, for comparisons with finite differences."""
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

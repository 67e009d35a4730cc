"""List the models whose training steps are measured.

They are the models of the Dali paper, and the LSTM-TC of the RAMMER paper's Figure 21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models import dali, mlstm, recurrent_models
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.models.gradients import TrainingStep, training_step
from rammer_mlir.errors import OptionError


@dataclass(frozen=True)
class TrainingModel:
    """A model whose training step is measured.

    Attributes:
        build: returns the forward model for a ``Size``; the model's output is ``loss``.
        description: description of the model in tables of results.
        weights: names of the values with respect to which the loss is differentiated; None stands
            for the initializers that ``trained_weights`` returns.
    """

    build: Callable[[Size], onnx.ModelProto]
    description: str
    weights: tuple[str, ...] | None = None


TRAINING_MODELS: dict[str, TrainingModel] = {
    "dali_cnn": TrainingModel(dali.build_cnn, "CNN of Dali's table 3"),
    "dali_transformer": TrainingModel(dali.build_transformer, "Transformer of 8 layers"),
    "mlstm": TrainingModel(mlstm.build_mlstm, "multiplicative LSTM, weight norm, unrolled"),
    "softmax_cross_entropy": TrainingModel(
        dali.build_softmax_cross_entropy, "Dali's section 2.4, by its logits", ("logits",)
    ),
    "lstm_tc_training": TrainingModel(
        recurrent_models.build_lstm_tc_loss, "LSTM-TC of RAMMER's Figure 21, unrolled"
    ),
}
"""Models whose training steps are measured, by name."""


def _model(name: str) -> TrainingModel:
    if name not in TRAINING_MODELS:
        known = ", ".join(TRAINING_MODELS)
        raise OptionError(f"model: expected one of {known}; found '{name}'; choose one of these")
    return TRAINING_MODELS[name]


def build_forward(name: str, size: Size = "full") -> onnx.ModelProto:
    """Build the forward model ``name`` of ``TRAINING_MODELS``; the model's output is the loss.

    Raises:
        OptionError: if the name is unknown.
    """
    return _model(name).build(size)


def build_step(name: str, size: Size = "full", *, rate: float | None = 0.01) -> TrainingStep:
    """Build the training step of a model: forward, gradients, and weight update.

    Args:
        name: a key of ``TRAINING_MODELS``.
        size: ``full`` as published, ``reduced`` for measurements on few cores, ``small`` for tests.
        rate: learning rate; with None, the step returns the gradients instead of updated weights.

    Raises:
        OptionError: if the name is unknown.
    """
    return training_step(build_forward(name, size), weights=_model(name).weights, rate=rate)

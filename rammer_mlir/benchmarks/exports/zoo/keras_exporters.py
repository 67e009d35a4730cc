"""Export Keras models by ``Model.export``, or by tf2onnx called directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from rammer_mlir.benchmarks.exports.zoo.table import Model


def export(model: Model, exporter: str, path: Path) -> None:
    """Export a model to the ONNX file ``path``, with open dimensions for batch size and lengths.

    If ``exporter`` is ``keras``, Keras's ``Model.export`` writes the file, else tf2onnx, called
    directly.
    """
    keras.utils.set_random_seed(0)
    made = model.make()
    made(*(each.draw(model.cases[0], np.random.default_rng(0)) for each in model.inputs))
    (_by_keras if exporter == "keras" else _by_tf2onnx)(made, path)


def _by_keras(made: Any, path: Path) -> None:
    made.export(str(path), format="onnx", verbose=False)


def _by_tf2onnx(made: Any, path: Path) -> None:
    import tf2onnx

    signature = [tf.TensorSpec(x.shape, x.dtype, name=x.name) for x in made.inputs]
    function = tf.function(lambda *xs: made(xs[0] if len(xs) == 1 else list(xs), training=False))
    tf2onnx.convert.from_function(
        function, input_signature=signature, opset=17, output_path=str(path)
    )

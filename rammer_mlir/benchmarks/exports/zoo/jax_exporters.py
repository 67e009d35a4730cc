"""Export functions and modules of JAX by jax2onnx."""

from __future__ import annotations

from pathlib import Path

import onnx
from jax2onnx import to_onnx

from rammer_mlir.benchmarks.exports.zoo.table import Model


def export(model: Model, exporter: str, path: Path) -> None:
    """Export a model to the ONNX file ``path``; named dimensions become open (dynamic).

    ``exporter`` is ignored, because JAX models have a single exporter.
    """
    shapes = [each.shape for each in model.inputs]
    names = [each.name for each in model.inputs]
    found = to_onnx(model.make(), inputs=shapes, input_names=names)
    onnx.save(found, path)

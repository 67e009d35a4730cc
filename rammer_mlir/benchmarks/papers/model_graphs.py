"""Compile benchmark models into task graphs for a device."""

from __future__ import annotations

import onnx

from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph


def model_graph(name: str, device: str, batch: int = 1, scale: Scale = "full") -> TaskGraph:
    """Return the task graph (tiled rOperators on buffers) of a benchmark model for ``device``.

    Raises:
        OptionError: if the model or the device is unknown.
    """
    return task_graph(build(name, batch, scale), device)


def task_graph(model: onnx.ModelProto, device: str) -> TaskGraph:
    """Return a model's task graph (tiled rOperators on buffers) for ``device``.

    If the device has several targets, the graph is for the first.
    """
    target = find_device(device).targets[0]
    options = check_options(target, policy="wavefront", num_veus=None, costs=device)
    return Compilation.of_model(model, options).task_graph()

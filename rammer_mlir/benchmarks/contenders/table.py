"""List the contenders by name, and load a model into a contender given by name."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path

from rammer_mlir.benchmarks.contenders.protocol import Contender, Open

REFERENCE = "onnxruntime"
"""The contender whose latency is compared in ratios, and whose outputs are taken as right."""

RIVALS = (REFERENCE, "openvino")
"""Contenders to beat; all other contenders appear in the tables of latencies and means only."""

CONTENDERS: dict[str, str] = {
    REFERENCE: "onnx_runtime:open_onnx_runtime",
    "openvino": "openvino:OpenVino",
    "iree": "iree:Iree",
    "pytorch": "pytorch:PyTorch",
}
"""Class or function in this package that opens a model, by the name of the contender.

A value has the form ``module:class`` or ``module:function``.
"""


def open_contender(model: Path, threads: int, name: str) -> Contender:
    """Load an ONNX file into the contender ``name`` of ``CONTENDERS``; return the loaded model.

    The contender's module is imported on demand.
    """
    module, _, attribute = CONTENDERS[name].partition(":")
    place = importlib.import_module(f"{__package__}.{module}")
    return getattr(place, attribute)(model, threads)


def open_rivals() -> dict[str, Open]:
    """Return, for each contender in ``RIVALS`` by name, the function that loads a model into it.

    ``RIVALS`` are the contenders that this compiler is compared with.
    """
    return {name: partial(open_contender, name=name) for name in RIVALS}

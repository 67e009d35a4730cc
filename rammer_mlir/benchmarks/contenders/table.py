"""The contenders by name."""

from __future__ import annotations

import importlib
from pathlib import Path

from rammer_mlir.benchmarks.contenders.protocol import Contender

REFERENCE = "onnxruntime"
"""Name of the contender to which ratios and errors refer."""

CONTENDERS: dict[str, str] = {
    REFERENCE: "onnx_runtime:open_onnx_runtime",
    "openvino": "openvino:OpenVino",
    "iree": "iree:Iree",
    "pytorch": "pytorch:PyTorch",
}
"""Class or function in this package that opens a model, by the name of the contender.

It has the form ``module:class`` or ``module:function``.
"""


def open_contender(model: Path, threads: int, name: str) -> Contender:
    """Open an ONNX file with the contender ``name`` of CONTENDERS; return the opened model.

    The contender's module is imported on demand.
    """
    module, _, attribute = CONTENDERS[name].partition(":")
    place = importlib.import_module(f"{__package__}.{module}")
    return getattr(place, attribute)(model, threads)

"""Run a model with OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contenders.protocol import required


class OpenVino:
    """A model compiled by OpenVINO in f32, for the lowest latency of one request at a time."""

    def __init__(self, model: Path, threads: int) -> None:
        """Compile an ONNX file; raise TargetError if OpenVINO is not installed."""
        openvino = required("openvino")
        names = onnx.load(model, load_external_data=False).graph
        core = openvino.Core()
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(threads),
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = core.compile_model(core.read_model(model), "CPU", options)
        self._request = compiled.create_infer_request()
        self._outputs = [output.name for output in names.output]
        self._ports = [compiled.output(number) for number in range(len(self._outputs))]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model on ``feeds``, inputs by name; return the outputs by name.

        The outputs are views of memory that the next run overwrites.
        """
        found = self._request.infer(dict(feeds), share_inputs=True, share_outputs=True)
        return {name: found[port] for name, port in zip(self._outputs, self._ports, strict=True)}

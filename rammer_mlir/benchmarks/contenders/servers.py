"""Define contenders that many clients call at the same time.

They are this compiler, ONNX Runtime with one thread for each run, and OpenVINO. Each client is a
thread of the benchmark; it may call a contender's ``run`` while other clients do.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.contenders.ours import Ours
from rammer_mlir.benchmarks.contenders.protocol import required


def open_ours(model: Path, threads: int) -> Ours:
    """Compile a model for ``threads`` vEUs; all runs together use ``threads`` threads."""
    rammer_mlir.use_threads(threads)
    return Ours(model, threads, "wavefront")


def open_serial(model: Path, threads: int) -> OnnxRuntime:
    """Load an ONNX file in ONNX Runtime; each run uses its client's thread and no other thread."""
    del threads
    return OnnxRuntime(model, 1)


class OpenVinoServer:
    """A model compiled by OpenVINO in f32 for throughput: a stream of requests on each thread."""

    def __init__(self, model: Path, threads: int) -> None:
        """Compile an ONNX file; raise TargetError if OpenVINO is not installed."""
        openvino = required("openvino")
        graph = onnx.load(model, load_external_data=False).graph
        core = openvino.Core()
        options = {
            "PERFORMANCE_HINT": "THROUGHPUT",
            "NUM_STREAMS": str(threads),
            "INFERENCE_NUM_THREADS": str(threads),
            "INFERENCE_PRECISION_HINT": "f32",
        }
        self._compiled = core.compile_model(core.read_model(model), "CPU", options)
        self._outputs = [output.name for output in graph.output]
        self._ports = [self._compiled.output(number) for number in range(len(self._outputs))]
        self._of_thread = threading.local()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model on ``feeds``, inputs by name; return the outputs by name.

        Each client thread has an inference request of its own. The outputs are views of memory that
        the next run of the client thread overwrites.
        """
        request = getattr(self._of_thread, "request", None)
        if request is None:
            request = self._of_thread.request = self._compiled.create_infer_request()
        found = request.infer(dict(feeds), share_inputs=True, share_outputs=True)
        return {name: found[port] for name, port in zip(self._outputs, self._ports, strict=True)}

"""Run a model with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from rammer_mlir.benchmarks.comparison import Array


class OnnxRuntime:
    """A model loaded in ONNX Runtime: the reference of tests, and a contender."""

    def __init__(
        self, model: onnx.ModelProto | bytes | Path, threads: int = 1, *, spin: bool = False
    ) -> None:
        """Load the model with full graph optimization and ``threads`` threads within an operator.

        With ``spin``, which is ONNX Runtime's default, worker threads spin after a run: the next
        run starts earlier, but other processes have fewer free cores.
        """
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        if not spin:
            options.add_session_config_entry("session.force_spinning_stop", "1")
        content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
        self._session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the session on ``feeds``, inputs by name; return the outputs by name."""
        values = self._session.run(self._names, dict(feeds))
        return dict(zip(self._names, (np.asarray(value) for value in values), strict=True))


def run(
    model: onnx.ModelProto | bytes, feeds: Mapping[str, Array], threads: int = 1
) -> dict[str, Array]:
    """Load a model, run it once, and return its outputs by name."""
    return OnnxRuntime(model, threads).run(feeds)


def open_onnx_runtime(model: Path, threads: int) -> OnnxRuntime:
    """Load an ONNX file in ONNX Runtime, with its default that worker threads spin after a run."""
    return OnnxRuntime(model, threads, spin=True)

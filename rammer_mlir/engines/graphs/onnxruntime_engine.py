"""Graphs by ONNX Runtime, each on the thread that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rammer_mlir.engines.graphs.entry import opened, read_graph
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.support.packages import optional_package

_ADVICE = "install it with 'pip install rammer-mlir[offload-onnxruntime]'"

_LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "none": "ORT_DISABLE_ALL",
}
"""ONNX Runtime's levels by the names that users give."""


class OnnxRuntimeEngine:
    """A session for each region."""

    name: ClassVar[str] = "onnxruntime"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption(
            "threads", 1, "threads that compute a region, that of its vEU included", least=1
        ),
        ModuleOption("optimization", "all", "how far it optimises", choices=tuple(_LEVELS)),
    )

    def open(self, host: EntryHost) -> OpenEntry:
        """Make a session.

        Raises:
            TargetError: if ONNX Runtime refuses the graph.
        """
        ort: Any = optional_package("onnxruntime", f"module '{host.module.name}'", _ADVICE)
        optional_package("onnx", f"module '{host.module.name}'", _ADVICE)
        from rammer_mlir.engines.graphs.onnx_model import onnx_model

        graph, weights = read_graph(host)
        options = ort.SessionOptions()
        options.intra_op_num_threads = host.options["threads"]
        options.inter_op_num_threads = 1
        level = _LEVELS[str(host.options["optimization"])]
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        options.log_severity_level = 3
        try:
            model = onnx_model(graph, weights).SerializeToString()
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no common class
            raise TargetError(
                f"module '{host.module.name}': expected ONNX Runtime to take the graph, found "
                f"'{' '.join(str(error).split())}'; choose another code generator"
            ) from error
        binding = session.io_binding()
        bind = {t.name: (binding.bind_input, t.shape) for t in graph.inputs}
        bind |= {t.name: (binding.bind_output, t.shape) for t in graph.outputs}
        before: dict[str, int] = {}

        def run(addresses: Mapping[str, int]) -> None:
            for name, address in addresses.items():
                if before.get(name) != address:
                    function, shape = bind[name]
                    function(name, "cpu", 0, np.float32, shape, address)
                    before[name] = address
            session.run_with_iobinding(binding)

        return opened(host, graph, weights, run)

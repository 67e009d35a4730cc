"""Graphs by ONNX Runtime, each on the thread that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rammer_mlir.engines.graphs.entry import dtype_of, opened, read_graph
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.support.packages import optional_package

_ADVICE = "install it with 'pip install rammer-mlir[offload-onnxruntime]'"


class OnnxRuntimeEngine:
    """A session for each region."""

    name: ClassVar[str] = "onnxruntime"

    def open(self, host: EntryHost) -> OpenEntry:
        """Make a session.

        Raises:
            TargetError: if ONNX Runtime refuses the graph.
        """
        ort: Any = optional_package("onnxruntime", f"module '{host.module.name}'", _ADVICE)
        from rammer_mlir.engines.graphs.onnx_model import onnx_model

        graph, weights = read_graph(host)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
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
        bind = {t.name: (binding.bind_input, t) for t in graph.inputs}
        bind |= {t.name: (binding.bind_output, t) for t in graph.outputs}
        before: dict[str, int] = {}

        def run(addresses: Mapping[str, int]) -> None:
            for name, address in addresses.items():
                if before.get(name) != address:
                    function, tensor = bind[name]
                    function(name, "cpu", 0, dtype_of(tensor), tensor.shape, address)
                    before[name] = address
            session.run_with_iobinding(binding)

        return opened(host, graph, weights, run)

"""Graphs by OpenVINO, each on the thread that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rammer_mlir.engines.graphs.entry import array_at, opened, read_graph
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.module_options import ModuleOption, Value
from rammer_mlir.support.packages import optional_package

_ADVICE = "install it with 'pip install rammer-mlir[offload-openvino]'"


def _properties(options: Mapping[str, Value]) -> dict[str, object]:
    threads = options["threads"]
    return {
        "INFERENCE_NUM_THREADS": threads,
        # Without a stream the caller's thread computes; one stream of one thread crashes OpenVINO
        # 2026.4.1 while it compiles attention in f32.
        "NUM_STREAMS": 0 if threads == 1 else 1,
        "ENABLE_CPU_PINNING": False,
        # By itself it computes in 16 bits where the processor can.
        "INFERENCE_PRECISION_HINT": options["precision"],
    }


class OpenVinoEngine:
    """A compiled model and one request for each region."""

    name: ClassVar[str] = "openvino"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption(
            "threads",
            1,
            "threads that compute a region: with one, the thread of its vEU; with more, OpenVINO's",
            least=1,
        ),
        ModuleOption(
            "precision", "f32", "type in which OpenVINO computes", choices=("f32", "bf16", "f16")
        ),
    )

    def open(self, host: EntryHost) -> OpenEntry:
        """Compile the graph.

        Raises:
            TargetError: if OpenVINO refuses it.
        """
        openvino: Any = optional_package("openvino", f"module '{host.module.name}'", _ADVICE)
        optional_package("onnx", f"module '{host.module.name}'", _ADVICE)
        from rammer_mlir.engines.graphs.onnx_model import onnx_model

        graph, weights = read_graph(host)
        properties = _properties(host.options)
        try:
            core = openvino.Core()
            content = onnx_model(graph, weights).SerializeToString()
            model = core.read_model(content)
            request = core.compile_model(model, "CPU", properties).create_infer_request()
        except RuntimeError as error:
            raise TargetError(
                f"module '{host.module.name}': expected OpenVINO to take the graph, found "
                f"'{' '.join(str(error).split())}'; choose another code generator"
            ) from error
        tensors = {tensor.name: tensor for tensor in (*graph.inputs, *graph.outputs)}
        before: dict[str, int] = {}

        def run(addresses: Mapping[str, int]) -> None:
            for name, address in addresses.items():
                if before.get(name) != address:
                    array = array_at(tensors[name], address)
                    request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
                    before[name] = address
            request.infer()

        return opened(host, graph, weights, run)

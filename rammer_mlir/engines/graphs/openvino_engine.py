"""Graphs by OpenVINO, each on the thread that calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rammer_mlir.engines.call_list import LOW_HALF, Bound, Call, CallList, Word
from rammer_mlir.engines.functions import Argument, call_function
from rammer_mlir.engines.graphs.entry import num_bytes
from rammer_mlir.engines.graphs.native_entry import native_entry, operands_of, read_native_graph
from rammer_mlir.engines.graphs.onnx_model import onnx_model
from rammer_mlir.engines.graphs.openvino_library import OpenVinoError, OpenVinoLibrary
from rammer_mlir.engines.graphs.thread_option import num_threads, thread_option
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import GraphTensor
from rammer_mlir.programs.module_options import ModuleOption

THREADS = thread_option(
    "threads that compute a region: with one, the thread of its vEU; with more, OpenVINO's"
)


def _properties(threads: int, precision: str) -> dict[str, str]:
    return {
        "INFERENCE_NUM_THREADS": str(threads),
        # Without a stream the caller's thread computes; one stream of one thread crashes OpenVINO
        # 2026.4.1 while it compiles attention in f32.
        "NUM_STREAMS": "0" if threads == 1 else "1",
        "ENABLE_CPU_PINNING": "NO",
        # By itself it computes in 16 bits where the processor can.
        "INFERENCE_PRECISION_HINT": precision,
    }


_MOST_COPIED = 1 << 16
"""Most bytes of an operand that is copied when it moves from run to run: to bind it to another
address takes OpenVINO 2026.4.1 up to 4 us, to copy so many bytes half of that."""


class OpenVinoEngine:
    """A compiled model and one request for each region."""

    name: ClassVar[str] = "openvino"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        THREADS,
        ModuleOption(
            "precision", "f32", "type in which OpenVINO computes", choices=("f32", "bf16", "f16")
        ),
    )

    def open(self, host: EntryHost) -> OpenEntry:
        """Compile the graph.

        Raises:
            TargetError: if OpenVINO refuses it.
        """
        graph, weights = read_native_graph(host)
        library = OpenVinoLibrary(host.find)
        content = onnx_model(graph, weights)
        operands = {n: t for n, t in operands_of(graph).items() if t.name not in weights}
        try:
            with ExitStack() as made:
                properties = _properties(num_threads(host), str(host.options["precision"]))
                request = Request.open(library, made, content, properties)
                number = len(graph.inputs)
                bound = {n: request.bind(t, n >= number) for n, t in operands.items()}
                calls = CallList([request.run()], bound)
                return native_entry(host, calls, made.pop_all(), library.message_of)
        except OpenVinoError as error:
            raise TargetError(
                f"module '{host.module.name}': expected OpenVINO to take the graph, found "
                f"'{error}'; choose another code generator"
            ) from error
        raise AssertionError("the stack lets exceptions pass")


@dataclass(frozen=True)
class Request:
    """A request of a compiled model, and what ends with it."""

    library: OpenVinoLibrary
    made: ExitStack
    model: int
    request: int

    @classmethod
    def open(
        cls,
        library: OpenVinoLibrary,
        made: ExitStack,
        content: bytes,
        properties: Mapping[str, str],
    ) -> Request:
        """Compile a model of ONNX.

        Raises:
            OpenVinoError: if the library refuses it.
        """
        make = partial(_make, library, made)
        core = make("core_create", "core_free")
        with ExitStack() as source:
            read = "core_read_model_from_memory_buffer"
            model = _make(library, source, read, "model_free", core, content, len(content), None)
            words = tuple(word.encode() for each in properties.items() for word in each)
            compiled = make(
                "core_compile_model", "compiled_model_free", core, model, b"CPU", len(words),
                behind=words,
            )  # fmt: skip
        request = make("compiled_model_create_infer_request", "infer_request_free", compiled)
        return cls(library, made, compiled, request)

    def run(self) -> Call:
        """Return the call that computes."""
        return Call(self.library.address("infer_request_infer"), (self.request,), LOW_HALF)

    def bind(self, operand: GraphTensor, is_output: bool) -> Bound:
        """Return what binds an input or output to an address."""
        port = self._port(operand.name, is_output)
        tensor = ctypes.c_uint64()
        dims = (ctypes.c_int64 * len(operand.shape))(*operand.shape)
        free = self.library.address("tensor_free")
        self.made.callback(_end_tensor, free, tensor, dims)
        create = self.library.address("tensor_create_from_host_ptr")
        set_tensor = self.library.address("infer_request_set_tensor_by_const_port")
        # Types have other numbers in other versions.
        kind = self.library.make("port_get_element_type", port)
        described = (kind, len(dims), ctypes.addressof(dims))
        place = ctypes.addressof(tensor)

        def calls(address: Word) -> Sequence[Call]:
            return (
                Call(free, (Word(place, is_taken=True),)),
                Call(create, (*described, address, place), LOW_HALF),
                Call(set_tensor, (self.request, port, Word(place)), LOW_HALF),
            )

        size = num_bytes(operand)
        return Bound(calls, is_output, size if size <= _MOST_COPIED else 0)

    def _port(self, name: str, is_output: bool) -> int:
        """Return an input or output of the model."""
        function = f"compiled_model_{'output' if is_output else 'input'}_by_name"
        free = "output_const_port_free"
        return _make(self.library, self.made, function, free, self.model, name.encode())


def _make(
    library: OpenVinoLibrary,
    made: ExitStack,
    create: str,
    free: str,
    *given: Argument,
    behind: tuple[Argument, ...] = (),
) -> int:
    """Make an object that ends with the stack."""
    found = library.make(create, *given, behind=behind)
    made.callback(call_function, library.address(free), found)
    return found


def _end_tensor(free: int, tensor: ctypes.c_uint64, _dims: object) -> None:
    call_function(free, tensor.value)

"""Graphs by OpenVINO, each on the thread that calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.engines.call_list import LOW_HALF, Bind, Call, CallList, Word
from rammer_mlir.engines.functions import Argument, call_function
from rammer_mlir.engines.graphs.native_entry import native_entry, operands_of, read_native_graph
from rammer_mlir.engines.graphs.openvino_library import OpenVinoError, OpenVinoLibrary
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import GraphTensor
from rammer_mlir.support.aligned import address_of, aligned_bytes

_OPTIONS: Mapping[str, str] = {
    "INFERENCE_NUM_THREADS": "1",
    # Without a stream the caller's thread computes; one stream of one thread crashes OpenVINO
    # 2026.4.1 while it compiles attention in f32.
    "NUM_STREAMS": "0",
    "ENABLE_CPU_PINNING": "NO",
    # By itself it computes in 16 bits where the processor can.
    "INFERENCE_PRECISION_HINT": "f32",
}

_COPIED = 1 << 15
"""Most bytes of an operand that is copied to memory of the request and back: to bind an operand to
another address takes OpenVINO 2026.4.1 1.4 us, to copy so many bytes half of that."""


class OpenVinoEngine:
    """A compiled model and one request for each region."""

    name: ClassVar[str] = "openvino"

    def open(self, host: EntryHost) -> OpenEntry:
        """Compile the graph.

        Raises:
            TargetError: if OpenVINO refuses it.
        """
        from rammer_mlir.engines.graphs.onnx_model import onnx_model

        graph, weights = read_native_graph(host)
        library = OpenVinoLibrary(host.find)
        content = onnx_model(graph, weights).SerializeToString()
        operands = {n: t for n, t in operands_of(graph).items() if t.name not in weights}
        try:
            with ExitStack() as made:
                request = Request.open(library, made, content)
                calls = _calls(request, operands, len(graph.inputs))
                return native_entry(host, calls, made.pop_all(), library.message_of)
        except OpenVinoError as error:
            raise TargetError(
                f"module '{host.module.name}': expected OpenVINO to take the graph, found "
                f"'{error}'; choose another code generator"
            ) from error
        raise AssertionError("the stack lets exceptions pass")


def _calls(request: Request, operands: Mapping[int, GraphTensor], num_inputs: int) -> CallList:
    bound: dict[int, Bind] = {}
    read: dict[int, NDArray[np.uint8]] = {}
    written: dict[int, NDArray[np.uint8]] = {}
    for number, tensor in operands.items():
        is_output, size = number >= num_inputs, 4 * prod(tensor.shape)
        port = request.port(tensor.name, is_output)
        if size > _COPIED:
            bound[number] = request.bind(port, tensor.shape)
        else:
            memory = aligned_bytes(size)
            request.bind_once(port, tensor.shape, memory)
            (written if is_output else read)[number] = memory
    return CallList([request.run()], bound, read, written)


@dataclass(frozen=True)
class Request:
    """A request of a compiled model, and what ends with it."""

    library: OpenVinoLibrary
    made: ExitStack
    model: int
    request: int

    @classmethod
    def open(cls, library: OpenVinoLibrary, made: ExitStack, content: bytes) -> Request:
        """Compile a model of ONNX.

        Raises:
            OpenVinoError: if the library refuses it.
        """
        make = partial(_make, library, made)
        core = make("core_create", "core_free")
        with ExitStack() as source:
            read = "core_read_model_from_memory_buffer"
            model = _make(library, source, read, "model_free", core, content, len(content), None)
            options = tuple(word.encode() for option in _OPTIONS.items() for word in option)
            compiled = make(
                "core_compile_model", "compiled_model_free", core, model, b"CPU", len(options),
                behind=options,
            )  # fmt: skip
        request = make("compiled_model_create_infer_request", "infer_request_free", compiled)
        return cls(library, made, compiled, request)

    def run(self) -> Call:
        """Return the call that computes."""
        return Call(self.library.address("infer_request_infer"), (self.request,), LOW_HALF)

    def port(self, name: str, is_output: bool) -> int:
        """Return an input or output."""
        function = f"compiled_model_{'output' if is_output else 'input'}_by_name"
        free = "output_const_port_free"
        return _make(self.library, self.made, function, free, self.model, name.encode())

    def bind_once(self, port: int, shape: Sequence[int], memory: NDArray[np.uint8]) -> None:
        """Bind an input or output to memory for good."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        kind = self._kind(port)
        given = (kind, len(shape), ctypes.addressof(dims), address_of(memory))
        create = "tensor_create_from_host_ptr"
        tensor = _make(self.library, self.made, create, "tensor_free", *given)
        set_tensor = "infer_request_set_tensor_by_const_port"
        self.library.call(set_tensor, self.request, port, tensor)

    def bind(self, port: int, shape: Sequence[int]) -> Bind:
        """Return what binds an input or output to an address."""
        tensor = ctypes.c_uint64()
        dims = (ctypes.c_int64 * len(shape))(*shape)
        place = ctypes.addressof(tensor)
        free = self.library.address("tensor_free")
        self.made.callback(_end_tensor, free, tensor, dims)
        create = self.library.address("tensor_create_from_host_ptr")
        set_tensor = self.library.address("infer_request_set_tensor_by_const_port")
        described = (self._kind(port), len(shape), ctypes.addressof(dims))

        def calls(address: Word) -> Sequence[Call]:
            return (
                Call(free, (Word(place, is_taken=True),)),
                Call(create, (*described, address, place), LOW_HALF),
                Call(set_tensor, (self.request, port, Word(place)), LOW_HALF),
            )

        return calls

    def _kind(self, port: int) -> int:
        """Return the number of f32, which is another one in other versions."""
        return self.library.make("port_get_element_type", port)


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

"""Runs graphs with OpenVINO; by default, the thread that calls a graph also computes it."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.engines.call_list import LOW_HALF, Bound, Call, CallList, Word
from rammer_mlir.engines.functions import call_function
from rammer_mlir.engines.graphs.entry import num_bytes, read_graph
from rammer_mlir.engines.graphs.native_entry import native_entry, operands_of, read_native_graph
from rammer_mlir.engines.graphs.onnx_model import onnx_model
from rammer_mlir.engines.graphs.openvino_binary import (
    binary_module,
    exported,
    read_blob,
    read_interface,
)
from rammer_mlir.engines.graphs.openvino_library import OpenVinoError, OpenVinoLibrary, make
from rammer_mlir.engines.graphs.thread_option import num_threads, thread_option
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import GraphTensor
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.programs.modules import CodeModule

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
        # Its default precision is 16 bits on processors that support it.
        "INFERENCE_PRECISION_HINT": precision,
    }


_MOST_COPIED = 1 << 16
"""Size in bytes of the largest operand that is copied in each run once its address has changed.

Larger operands are bound again, which takes OpenVINO 2026.4.1 up to 4 us; copying this many bytes
takes half of that time.
"""


class OpenVinoEngine:
    """An engine that runs a graph with OpenVINO, as a compiled model with one inference request."""

    name: ClassVar[str] = "openvino"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        THREADS,
        ModuleOption(
            "precision", "f32", "type in which OpenVINO computes", choices=("f32", "bf16", "f16")
        ),
        ModuleOption(
            "form",
            "graph",
            "content of an artifact: a graph, or the binary form of the installed OpenVINO",
            choices=("graph", "binary"),
        ),
    )

    def open(self, host: EntryHost) -> OpenEntry:
        """Compile a module's graph, or import its model if the module's form is ``binary``.

        ``host`` describes the function to open, with its module. Return the ``OpenEntry`` through
        which the compiled program runs the model.

        Raises:
            TargetError: if OpenVINO refuses the graph or the model.
        """
        is_binary = host.module.form == "binary"
        interface, weights = read_interface(host) if is_binary else read_native_graph(host)
        operands = {n: t for n, t in operands_of(interface).items() if t.name not in weights}
        library = OpenVinoLibrary(host.find)
        with _as_target_error(host), ExitStack() as made:
            compiled = (
                _imported(library, made, host) if is_binary else _compiled(library, made, host)
            )
            request = Request.of(library, made, compiled)
            number = len(interface.inputs)
            bound = {n: request.bind(t, n >= number) for n, t in operands.items()}
            calls = CallList([request.run()], bound)
            return native_entry(host, calls, made.pop_all(), library.message_of)
        raise AssertionError("the stack lets exceptions pass")

    def prebuilt(self, hosts: Sequence[EntryHost]) -> CodeModule | None:
        """Return a module of the form ``binary`` if the option ``form`` asks for it, else None.

        ``hosts`` describes each function of the module.

        Raises:
            TargetError: if OpenVINO refuses the graph.
        """
        if hosts[0].options["form"] != "binary":
            return None
        blobs: list[bytes] = []
        for host in hosts:
            library = OpenVinoLibrary(host.find)
            with _as_target_error(host), ExitStack() as made:
                blobs.append(exported(library, _compiled(library, made, host)))
        return binary_module(hosts[0].module, blobs)


@contextmanager
def _as_target_error(host: EntryHost) -> Generator[None]:
    """Convert an OpenVinoError in the ``with`` block to a TargetError about ``host``'s module."""
    try:
        yield
    except OpenVinoError as error:
        what = "binary form" if host.module.form == "binary" else "graph"
        raise TargetError(
            f"module '{host.module.name}': expected OpenVINO to take the {what}, found '{error}'; "
            "choose another code generator"
        ) from error


def _properties_of(host: EntryHost) -> dict[str, str]:
    return _properties(num_threads(host), str(host.options["precision"]))


def _compiled(library: OpenVinoLibrary, made: ExitStack, host: EntryHost) -> int:
    """Compile a module's graph; return the address of the ``ov_compiled_model_t``.

    ``host`` has the module. Closing ``made`` frees the model.
    """
    content = onnx_model(*read_graph(host))
    core = make(library, made, "core_create", "core_free")
    words = tuple(word.encode() for each in _properties_of(host).items() for word in each)
    # The source model is freed here: the compiled model does not depend on it.
    with ExitStack() as source:
        read = "core_read_model_from_memory_buffer"
        model = make(library, source, read, "model_free", core, content, len(content), None)
        return make(
            library, made, "core_compile_model", "compiled_model_free", core, model, b"CPU",
            len(words), behind=words,
        )  # fmt: skip
    raise AssertionError("the stack lets exceptions pass")


def _imported(library: OpenVinoLibrary, made: ExitStack, host: EntryHost) -> int:
    """Import a function's exported model; return the address of the ``ov_compiled_model_t``.

    ``host`` describes the function. Closing ``made`` frees the model.
    """
    content = read_blob(host)
    made.callback(len, content)  # keeps the bytes: constants of the model may be views of them
    core = make(library, made, "core_create", "core_free")
    for name, value in _properties_of(host).items():
        library.call("core_set_property", core, b"CPU", name.encode(), value.encode())
    imported = "core_import_model"
    return make(library, made, imported, "compiled_model_free", core, content, len(content), b"CPU")


@dataclass(frozen=True)
class Request:
    """An inference request of a compiled model.

    ``model`` and ``request`` are the addresses of OpenVINO's objects.
    """

    library: OpenVinoLibrary
    made: ExitStack
    model: int
    request: int

    @classmethod
    def of(cls, library: OpenVinoLibrary, made: ExitStack, compiled: int) -> Request:
        """Create a request of the model at ``compiled``; closing ``made`` frees the request.

        Raises:
            OpenVinoError: if OpenVINO cannot create the request.
        """
        create, free = "compiled_model_create_infer_request", "infer_request_free"
        return cls(library, made, compiled, make(library, made, create, free, compiled))

    def run(self) -> Call:
        """Return the C call that runs the request on the buffers that are bound to it."""
        return Call(self.library.address("infer_request_infer"), (self.request,), LOW_HALF)

    def bind(self, operand: GraphTensor, is_output: bool) -> Bound:
        """Return the C calls that make the buffer of an input or output a tensor of the request.

        A buffer of at most ``_MOST_COPIED`` bytes is copied, not rebound, if its address changes.
        """
        port = self._port(operand.name, is_output)
        tensor = ctypes.c_uint64()
        dims = (ctypes.c_int64 * len(operand.shape))(*operand.shape)
        free = self.library.address("tensor_free")
        self.made.callback(_end_tensor, free, tensor, dims)
        create = self.library.address("tensor_create_from_host_ptr")
        set_tensor = self.library.address("infer_request_set_tensor_by_const_port")
        # The enumeration's values of types differ between versions.
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
        """Return the address of the port of an input, or of an output if ``is_output``."""
        function = f"compiled_model_{'output' if is_output else 'input'}_by_name"
        free = "output_const_port_free"
        return make(self.library, self.made, function, free, self.model, name.encode())


def _end_tensor(free: int, tensor: ctypes.c_uint64, _dims: object) -> None:
    call_function(free, tensor.value)

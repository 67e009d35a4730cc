"""Runs graphs with ONNX Runtime; by default, the thread that calls a graph also computes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rammer_mlir.engines.call_list import ANY_BIT, Bound, Call, CallList, Word
from rammer_mlir.engines.functions import Argument, call_function
from rammer_mlir.engines.graphs.entry import num_bytes
from rammer_mlir.engines.graphs.native_entry import native_entry, operands_of, read_native_graph
from rammer_mlir.engines.graphs.onnx_model import DATA_TYPES, onnx_model
from rammer_mlir.engines.graphs.onnxruntime_library import Function, OrtError, OrtLibrary
from rammer_mlir.engines.graphs.thread_option import num_threads, thread_option
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import GraphTensor
from rammer_mlir.programs.module_options import ModuleOption

_DEVICE_ALLOCATOR, _DEFAULT_MEMORY = 0, 0

_ERRORS_ONLY = 3
"""ONNX Runtime's logging level for errors only."""

_LEVELS = {"all": 99, "extended": 2, "basic": 1, "none": 0}
"""Values of ``GraphOptimizationLevel``, by value of the option ``optimization``."""


THREADS = thread_option("threads that compute a region, that of its vEU included")


class OnnxRuntimeEngine:
    """An engine that runs graphs in ONNX Runtime, with a session for each graph."""

    name: ClassVar[str] = "onnxruntime"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        THREADS,
        ModuleOption(
            "optimization",
            "all",
            "level of ONNX Runtime's graph optimizations",
            choices=tuple(_LEVELS),
        ),
    )

    def open(self, host: EntryHost) -> OpenEntry:
        """Create a session for a module's graph, and return the entry that runs the session.

        Raises:
            TargetError: if ONNX Runtime refuses the graph.
        """
        graph, weights = read_native_graph(host)
        model = onnx_model(graph, weights)
        try:
            library = OrtLibrary(host.find)
            level = _LEVELS[str(host.options["optimization"])]
            session = Session.open(library, model, num_threads(host), level)
        except OrtError as error:
            raise TargetError(
                f"module '{host.module.name}': expected ONNX Runtime to take the graph, found "
                f"'{error}'; choose another code generator"
            ) from error
        number = len(graph.inputs)
        bound = {
            n: session.bind(tensor, n >= number)
            for n, tensor in operands_of(graph).items()
            if tensor.name not in weights
        }
        return native_entry(
            host, CallList([session.run()], bound), session.made, library.take_message
        )


@dataclass(frozen=True)
class Session:
    """A session of ONNX Runtime, and the binding of the session's inputs and outputs to memory.

    Attributes:
        library: ONNX Runtime's C functions.
        made: a stack that frees all objects of the session when the stack is closed.
        session: address of the ``OrtSession``.
        memory: address of the ``OrtMemoryInfo`` of CPU memory.
        options: address of the ``OrtRunOptions``.
        binding: address of the ``OrtIoBinding``.
    """

    library: OrtLibrary
    made: ExitStack
    session: int
    memory: int
    options: int
    binding: int

    @classmethod
    def open(cls, library: OrtLibrary, model: bytes, threads: int, level: int) -> Session:
        """Create a session for a model, and return it.

        Args:
            library: ONNX Runtime's C functions.
            model: serialized ONNX model.
            threads: count of threads that compute an operator, including the calling thread.
            level: value of ``GraphOptimizationLevel``.

        Raises:
            OrtError: if the library refuses the model.
        """
        with ExitStack() as made:
            make = partial(_make, library, made)
            environment = make(Function.CREATE_ENV, Function.RELEASE_ENV, _ERRORS_ONLY, b"rammer")
            options = make(Function.CREATE_SESSION_OPTIONS, Function.RELEASE_SESSION_OPTIONS)
            library.call(Function.SET_INTRA_OP_NUM_THREADS, options, threads)
            # The operators of a region run in order, each on the threads set above.
            library.call(Function.SET_INTER_OP_NUM_THREADS, options, 1)
            library.call(Function.SET_SESSION_GRAPH_OPTIMIZATION_LEVEL, options, level)
            session = make(
                Function.CREATE_SESSION_FROM_ARRAY, Function.RELEASE_SESSION,
                environment, model, len(model), options,
            )  # fmt: skip
            memory = make(
                Function.CREATE_CPU_MEMORY_INFO, Function.RELEASE_MEMORY_INFO,
                _DEVICE_ALLOCATOR, _DEFAULT_MEMORY,
            )  # fmt: skip
            run_options = make(Function.CREATE_RUN_OPTIONS, Function.RELEASE_RUN_OPTIONS)
            binding = make(Function.CREATE_IO_BINDING, Function.RELEASE_IO_BINDING, session)
            return cls(library, made.pop_all(), session, memory, run_options, binding)
        raise AssertionError("the stack lets exceptions pass")

    def run(self) -> Call:
        """Return the C call that runs the session on the bound memory."""
        function = self.library.address(Function.RUN_WITH_BINDING)
        return Call(function, (self.session, self.options, self.binding), ANY_BIT)

    def bind(self, tensor: GraphTensor, is_output: bool) -> Bound:
        """Return the C calls that bind a buffer to the session's input or output ``tensor``.

        ``tensor`` is an output if ``is_output``, else an input.
        """
        address_of_function = self.library.address
        release = address_of_function(Function.RELEASE_VALUE)
        value = ctypes.c_uint64()
        name = ctypes.create_string_buffer(tensor.name.encode())
        shape = (ctypes.c_int64 * len(tensor.shape))(*tensor.shape)
        self.made.callback(_end_value, release, value, name, shape)
        place = ctypes.addressof(value)
        size, kind = num_bytes(tensor), DATA_TYPES[tensor.element_type]
        described = (size, ctypes.addressof(shape), len(tensor.shape), kind)
        create = address_of_function(Function.CREATE_TENSOR_WITH_DATA)
        bind = address_of_function(Function.BIND_OUTPUT if is_output else Function.BIND_INPUT)

        def calls(address: Word) -> Sequence[Call]:
            return (
                Call(release, (Word(place, is_taken=True),)),
                Call(create, (self.memory, address, *described, place), ANY_BIT),
                Call(bind, (self.binding, ctypes.addressof(name), Word(place)), ANY_BIT),
            )

        return Bound(calls, is_output)


def _make(
    library: OrtLibrary, made: ExitStack, create: Function, release: Function, *given: Argument
) -> int:
    """Create an object with the C function ``create``, and return the object's address.

    ``given`` are the arguments of ``create``. When the stack ``made`` is closed, it frees the
    object with the C function ``release``.
    """
    found = library.make(create, *given)
    made.callback(call_function, library.address(release), found)
    return found


def _end_value(release: int, value: ctypes.c_uint64, *_kept: object) -> None:
    call_function(release, value.value)

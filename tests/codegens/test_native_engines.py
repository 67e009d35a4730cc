"""Tests that ONNX Runtime and OpenVINO compute regions when called by their C functions.

Failed runs name the library's message, several threads and forked children get right results, and
memory does not grow.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.codegens import (
    EntryHost,
    OpenEntry,
    Requirement,
    register_codegen,
    register_engine,
)
from rammer_mlir.codegens.graph.codegen import OnnxRuntimeGraphs, OpenVinoGraphs
from rammer_mlir.engines.engine import ENGINES, Engine
from rammer_mlir.engines.functions import call_function
from rammer_mlir.engines.graphs.onnxruntime_engine import Session
from rammer_mlir.engines.graphs.onnxruntime_library import Function, OrtError, OrtLibrary
from rammer_mlir.engines.requirements import find_function, open_libraries
from rammer_mlir.errors import TargetError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.programs.native_interface import CALL, CALL_LIST
from rammer_mlir.runtime.executable import Executable
from tests.codegens.checks import veus_with_modules

NAMES = ["onnxruntime", "openvino"]

NAMES_AND_CALLBACK = [*NAMES, "numpy"]
"""Also the engine whose runs take the interpreter's lock."""

CODEGEN_OF = {"onnxruntime": OnnxRuntimeGraphs, "openvino": OpenVinoGraphs}

RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


def two_branches(size: int) -> onnx.ModelProto:
    """Return a model of two products that do not depend on each other."""
    kind = f"float[{size},{size}]"
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20]>
      g ({kind} x, {kind} z) => ({kind} y, {kind} u) {{
        y = MatMul(x, v)  u = MatMul(z, w) }}""")
    rng = np.random.default_rng(7)
    for name in ("v", "w"):
        values = rng.standard_normal((size, size)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def offloaded(model: onnx.ModelProto, name: str, **options: Any) -> Executable:
    options = {"num_veus": 2, "policy": "list"} | options
    found = rammer_mlir.compile(
        model, offload=name, offload_choice="always", cache=False, **options
    )
    assert isinstance(found, Executable)
    return found


def feeds_of(size: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((size, size)).astype(np.float32) for name in "xz"}


def check(exe: Executable, model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """Compare a run's results with products computed in double precision; return the results."""
    found = exe.run(feeds)
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for output, left, right in (("y", "x", "v"), ("u", "z", "w")):
        wanted = feeds[left].astype(np.float64) @ weights[right].astype(np.float64)
        np.testing.assert_allclose(found[output], wanted, rtol=1e-4, atol=1e-3)
    return found


@dataclass
class Spy:
    """An engine that lets another engine open entries, and stores each ``EntryHost`` and entry."""

    engine: Engine
    name: ClassVar[str] = "spy"
    hosts: list[EntryHost] = field(default_factory=list[EntryHost])
    entries: list[OpenEntry] = field(default_factory=list[OpenEntry])

    @property
    def options(self) -> Sequence[ModuleOption]:
        return getattr(self.engine, "options", ())

    def open(self, host: EntryHost) -> OpenEntry:
        self.hosts.append(host)
        self.entries.append(self.engine.open(host))
        return self.entries[-1]


def nothing(_: object) -> int:
    return 0


@contextmanager
def registered(spy: Spy) -> Generator[None]:
    """Register a spy, and a code generator whose engine is the spy, in the ``with`` block."""
    register_engine(spy)
    codegen: Any = type("Graphs", (CODEGEN_OF[spy.engine.name],), {"name": spy.name})
    register_codegen(codegen())
    try:
        yield
    finally:
        CODEGENS.unregister(spy.name)
        ENGINES.unregister(spy.name)


@pytest.fixture(params=NAMES)
def spy(request: pytest.FixtureRequest) -> Iterator[Spy]:
    """Return a spy on an engine; the spy is registered during the test."""
    made = Spy(ENGINES.get(request.param))
    with registered(made):
        yield made


@pytest.mark.parametrize("size", [8, 192])
@pytest.mark.parametrize("name", NAMES_AND_CALLBACK)
def test_two_regions_side_by_side(name: str, size: int, tmp_path: Path) -> None:
    """Two regions run on two vEUs; 200 runs on arrays at changing addresses have equal results."""
    model = two_branches(size)
    with offloaded(model, name) as exe:
        assert len(exe.image.entries) == 2
        assert exe.image.launch.busy_veus == veus_with_modules(exe) == 2, "a vEU each"
        first = check(exe, model, feeds_of(size))
        kept: list[Any] = []
        for n in range(200):
            kept.append({key: value.copy() for key, value in feeds_of(size).items()})
            kept = kept[-(n % 3 + 1) :]
            found = exe.run(kept[-1])
            assert all(np.array_equal(found[key], value) for key, value in first.items())
        check(exe, model, feeds_of(size, seed=2))
        exe.save(tmp_path / "two.rammer")
    with rammer_mlir.load(tmp_path / "two.rammer") as loaded:
        found = loaded.run(feeds_of(size))
        assert all(np.array_equal(found[key], value) for key, value in first.items())


@pytest.mark.parametrize("name", NAMES)
def test_runs_take_no_lock_of_the_interpreter(name: str) -> None:
    """Regions do not take the interpreter's lock: they run while the caller keeps the lock."""
    model, feeds = two_branches(8), feeds_of(8)
    with offloaded(model, name) as exe:
        known: Any = exe
        launch = known._code.launch
        kind: Any = ctypes.PYFUNCTYPE(None, *launch.argtypes)
        known._code = replace(known._code, launch=kind(ctypes.cast(launch, ctypes.c_void_p).value))
        for _ in range(20):
            check(exe, model, feeds)


@contextmanager
def failing(spy: Spy) -> Generator[None]:
    """Let all runs of the spied engine fail in the ``with`` block.

    For ONNX Runtime, the flag "terminate" is set in the run options. For OpenVINO, null takes the
    place of the infer request in the calls.
    """
    if spy.engine.name == "openvino":
        calls = [arguments(entry) for entry in spy.entries]
        requests = [call[0] for call in calls]
        for call in calls:
            call[0] = 0
        yield
        for call, request in zip(calls, requests, strict=True):
            call[0] = request
        return
    library = OrtLibrary(spy.hosts[0].find)
    all_options = [int(arguments(entry)[1]) for entry in spy.entries]
    for options in all_options:
        library.call(Function.RUN_OPTIONS_SET_TERMINATE, options)
    yield
    for options in all_options:
        library.call(Function.RUN_OPTIONS_UNSET_TERMINATE, options)


def arguments(entry: OpenEntry) -> Any:
    """Return the arguments of an entry's only C call, which computes the region.

    They are a NumPy view of the entry's call list, so that a test can change them.
    """
    head = memory_at(entry.state, CALL_LIST)
    calls = memory_at(int(head["calls"]), CALL)
    return calls["arguments"]


def memory_at(address: int, layout: np.dtype[np.void]) -> Any:
    """Return the structure of type ``layout`` at an address in memory."""
    memory: Any = (ctypes.c_char * layout.itemsize).from_address(address)
    return np.frombuffer(memory, layout)[0]


def test_errors_of_a_run(spy: Spy) -> None:
    """A failed run's error has the library's message, in one line; the next run succeeds."""
    model, feeds = two_branches(8), feeds_of(8)
    with offloaded(model, spy.name) as exe:
        first = check(exe, model, feeds)
        said = "terminate" if spy.engine.name == "onnxruntime" else "parameter"
        message = (
            rf"rKernel 'spy_\w+' of rOperator '.*': expected status 0, found '.*{said}.*'; the"
        )
        for _ in range(3):
            with failing(spy), pytest.raises(TargetError, match=message) as raised:
                exe.run(feeds)
            assert "\n" not in str(raised.value)
        found = exe.run(feeds)
        assert all(np.array_equal(found[key], value) for key, value in first.items())


def test_a_buffer_that_cannot_be_bound() -> None:
    """A run with a null buffer fails with the library's message; the next run succeeds."""
    spy = Spy(ENGINES.get("openvino"))
    with registered(spy), offloaded(two_branches(192), spy.name) as exe:
        exe.prepare()
        entry = spy.entries[0]
        arrays = [np.ones((192, 192), np.float32) for _ in range(3)]
        for size in (192, 0, 192, 0, 192):
            buffers = (ctypes.c_void_p * 3)(*(size and array.ctypes.data for array in arrays))
            failed = RUN(entry.function)(entry.state, 0, ctypes.addressof(buffers))
            assert failed == (not size)
            assert bool(entry.explain()) == bool(failed)


def test_a_graph_that_is_refused(spy: Spy) -> None:
    with offloaded(two_branches(8), spy.name) as exe:
        exe.prepare()
        host, _ = spy.hosts
        content = host.module.content.replace(b'"MatMul"', b'"NoOperator"')
        assert content != host.module.content
        with pytest.raises(TargetError, match=r"to take the graph, found '.*NoOperator.*'; choose"):
            spy.engine.open(replace(host, module=replace(host.module, content=content)))
        with pytest.raises(TargetError, match="found one of an earlier version; compile the model"):
            spy.engine.open(replace(host, run_calls=0))
        with pytest.raises(TargetError, match=r"found 'no function \w+'; choose another"):
            spy.engine.open(replace(host, find=nothing))


def test_opened_and_closed_again_and_again(spy: Spy) -> None:
    """Memory does not grow when entries are opened and then closed or dropped."""
    with offloaded(two_branches(128), spy.name) as exe:
        exe.prepare()
        (host, _) = spy.hosts
        arrays = [np.zeros((128, 128), np.float32) for _ in range(3)]
        buffers = (ctypes.c_void_p * 3)(*(array.ctypes.data for array in arrays))

        def turn(is_closed: bool) -> None:
            entry = spy.engine.open(host)
            assert RUN(entry.function)(entry.state, 0, ctypes.addressof(buffers)) == 0
            if is_closed:
                entry.close()

        for n in range(20):
            turn(bool(n % 2))
        gc.collect()
        before = resident()
        for n in range(100):
            turn(bool(n % 2))
        gc.collect()
        assert resident() - before < 8 << 20  # a session with its weights has 130 KB


def resident() -> int:
    """Return the bytes of physical memory that the process uses."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_a_child_forked_after_threads_of_openmp() -> None:
    """A forked child computes the parent's results with OpenMP's threads of its own.

    The parent's threads outlive the program that started them, but not the fork: if OpenMP were
    not paused before the fork, the child would wait for them forever.
    """
    model, feeds = two_branches(64), feeds_of(64)
    exe, other = (
        offloaded(model, "onednn", num_veus=1, module_options={"onednn.threads": 2})
        for _ in range(2)
    )
    wanted = check(other, model, feeds)
    other.close()
    for _ in range(2):
        child = os.fork()
        if not child:
            signal.alarm(60)
            found = exe.run(feeds)
            os._exit(0 if all(np.array_equal(found[n], v) for n, v in wanted.items()) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        exe.run(feeds)


@pytest.mark.parametrize("name", [*NAMES_AND_CALLBACK, "onednn"])
def test_a_forked_child(name: str) -> None:
    """A forked child opens entries of its own; child and parent compute the same bits."""
    model, feeds = two_branches(8), feeds_of(8)
    exe = offloaded(model, name)
    first = check(exe, model, feeds)
    child = os.fork()
    if not child:
        code = 1
        try:
            del exe.stats["module_seconds"]
            found = check(exe, model, feeds)
            is_open = "module_seconds" in exe.stats
            is_equal = all(np.array_equal(found[key], value) for key, value in first.items())
            exe.close()
            code = 0 if is_open and is_equal else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    found = check(exe, model, feeds)
    assert all(np.array_equal(found[key], value) for key, value in first.items())
    exe.close()


ENDING = """
import sys
for name in ("torch_mlir", "mlir", "llvmlite", "onnxruntime", "openvino"):
    sys.modules[name] = None
import numpy as np, rammer_mlir
exe = rammer_mlir.load(sys.argv[1])
found = exe.run({name: np.ones((8, 8), np.float32) for name in "xz"})
print(sorted(found))
"""


@pytest.mark.parametrize("name", NAMES)
def test_neither_the_compiler_nor_the_package_is_imported(name: str, tmp_path: Path) -> None:
    """An artifact runs in a process without the compiler and the engine's Python package.

    The process exits with 0, although its entries are still open.
    """
    with offloaded(two_branches(8), name) as exe:
        exe.save(tmp_path / "two.rammer")
    command = [sys.executable, "-c", ENDING, str(tmp_path / "two.rammer")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "['u', 'y']\n")


def ort() -> OrtLibrary:
    (need,) = OnnxRuntimeGraphs.needs
    libraries = open_libraries(CodeModule("test", "graph", needs=(need,)))
    return OrtLibrary(lambda symbol: find_function(libraries, symbol))


def test_places_in_the_table_of_onnx_runtime() -> None:
    """Each function has the expected index in the function table of ONNX Runtime's C API.

    Messages of ONNX Runtime show which function was called.
    """
    library = ort()
    assert library.version == version("onnxruntime")
    environment = library.make(Function.CREATE_ENV, 3, b"test")
    options = library.make(Function.CREATE_SESSION_OPTIONS)
    with pytest.raises(OrtError, match="rotobuf"):
        library.make(Function.CREATE_SESSION_FROM_ARRAY, environment, b"no model", 8, options)
    model = two_branches(8).SerializeToString()
    session = Session.open(library, model, threads=1, level=99)
    with session.made:
        memory = (ctypes.c_float * 64)()
        shape = (ctypes.c_int64 * 2)(8, 8)
        where = (ctypes.addressof(memory), 256, ctypes.addressof(shape), 2)
        with pytest.raises(OrtError, match="expected 256, got 8"):
            library.make(
                Function.CREATE_TENSOR_WITH_DATA, session.memory, where[0], 8, *where[2:], 1
            )
        value = library.make(Function.CREATE_TENSOR_WITH_DATA, session.memory, *where, 1)
        binding = library.make(Function.CREATE_IO_BINDING, session.session)
        with pytest.raises(OrtError, match="input name in the mapping: nobody"):
            library.call(Function.BIND_INPUT, binding, b"nobody", value)
        call_function(library.address(Function.RELEASE_IO_BINDING), binding)
        binding = library.make(Function.CREATE_IO_BINDING, session.session)
        library.call(Function.BIND_OUTPUT, binding, b"nobody", value)
        with pytest.raises(OrtError, match=r"nobody|[iI]nput"):
            library.call(Function.RUN_WITH_BINDING, session.session, session.options, binding)
        call_function(library.address(Function.RELEASE_IO_BINDING), binding)
        result = (ctypes.c_float * 64)()
        described = (256, ctypes.addressof(shape), 2, 1)
        output = library.make(
            Function.CREATE_TENSOR_WITH_DATA, session.memory, ctypes.addressof(result), *described
        )
        run = (Function.RUN_WITH_BINDING, session.session, session.options, session.binding)
        for names, function, given in (
            (b"xz", Function.BIND_INPUT, value), (b"yu", Function.BIND_OUTPUT, output)
        ):  # fmt: skip
            for name in names:
                library.call(function, session.binding, bytes([name]), given)
        memory[0] = 1
        library.call(Function.RUN_OPTIONS_SET_TERMINATE, session.options)
        with pytest.raises(OrtError, match="terminate"):
            library.call(*run)
        assert not any(result)
        library.call(Function.RUN_OPTIONS_UNSET_TERMINATE, session.options)
        library.call(*run)
        assert any(result[:8]) and not any(result[8:]), "a product with the first row alone"


def test_a_version_without_these_functions() -> None:
    """A library without the needed version of the function table is refused.

    The message has the version of the library.
    """
    text = ctypes.create_string_buffer(b"9.9.9")
    get_table = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(nothing)
    get_version = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(text))
    base = (ctypes.c_void_p * 2)(
        *(ctypes.cast(each, ctypes.c_void_p) for each in (get_table, get_version))
    )
    get_base = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(base))
    with pytest.raises(OrtError, match=r"version 9\.9\.9, without functions of version 12"):
        OrtLibrary(lambda _: ctypes.cast(get_base, ctypes.c_void_p).value or 0)


def test_a_package_without_the_library() -> None:
    need = Requirement("onnxruntime", library="/libonnxruntime.so.0.*")
    with pytest.raises(TargetError, match=r"library /libonnxruntime.so.0.\* of the package"):
        open_libraries(CodeModule("test", "graph", needs=(need,)))

"""External rKernels that have a state: opened once, by linked code or by an engine."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.codegens import (
    EntryHost,
    OpenEntry,
    Requirement,
    python_entry,
    register_codegen,
    register_engine,
)
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.errors import (
    FallbackWarning,
    MissingPackageError,
    OptionError,
    PassError,
    TargetError,
)
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable
from tests.external.states import PackedProducts, Products, check, two_products
from tests.runtime.test_without_compiler import python


@pytest.fixture
def packed() -> Iterator[PackedProducts]:
    """Yield a code generator of C code with a state, which is registered during the test."""
    codegen = PackedProducts()
    register_codegen(codegen)
    yield codegen
    CODEGENS.unregister(codegen.name)


@pytest.fixture
def engine(packed: PackedProducts) -> Iterator[Products]:
    """Yield an engine, registered during the test; ``packed`` generates modules for this engine."""
    made = Products()
    register_engine(made)
    packed.form, packed.code = "graph", {"engine": made.name}
    yield made
    ENGINES.unregister(made.name)


def offloaded(**options: Any) -> Executable:
    model = two_products()
    found = rammer_mlir.compile(
        model, offload="packed", offload_choice="always", cache=False, **options
    )
    assert isinstance(found, Executable)
    return found


def test_c_with_a_state(packed: PackedProducts, tmp_path: Path) -> None:
    exe = offloaded(num_veus=2)
    assert len(exe.image.entries) == 2
    assert len(exe.image.modules) == 1, "equal regions share their code"
    check(exe)
    exe.save(tmp_path / "products.rammer")
    verify(tmp_path / "products.rammer")
    loaded = rammer_mlir.load(tmp_path / "products.rammer")
    assert isinstance(loaded, Executable)
    check(loaded)
    assert list(loaded.stats["module_seconds"]) == [exe.image.modules[0].name]
    loaded.close()
    exe.close()


LOADED = """
import numpy as np, rammer_mlir
model = rammer_mlir.load(sys.argv[1])
assert [module.form for module in model.image.modules] == ["c"]
assert not {"mlir", "torch_mlir", "llvmlite", "onnx"} & set(sys.modules)
np.save(sys.argv[3], model.run({"x": np.load(sys.argv[2])})["y"])
"""


def test_c_with_a_state_needs_no_compiler(packed: PackedProducts, tmp_path: Path) -> None:
    exe = offloaded(num_veus=2)
    exe.save(tmp_path / "products.rammer")
    x = np.random.default_rng(1).standard_normal((6, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    paths = [tmp_path / name for name in ("products.rammer", "x.npy", "y.npy")]
    assert python(LOADED, *paths) == (0, "", "")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), exe.run({"x": x})["y"])


def test_measured(packed: PackedProducts, engine: Products) -> None:
    """A function is opened with its weights to be measured, and closed after the measurement."""
    for form in ("graph", "c"):
        packed.form, packed.code = form, {"engine": engine.name} if form == "graph" else {}
        exe = offloaded(costs="measured")
        check(exe)
        exe.close()
    assert engine.is_open == []


def test_an_engine(engine: Products, tmp_path: Path) -> None:
    exe = offloaded()
    assert engine.is_open == []
    exe.prepare()
    assert len(engine.is_open) == 2
    check(exe)
    exe.save(tmp_path / "graph.rammer")
    exe.close()
    assert engine.is_open == []
    with rammer_mlir.load(tmp_path / "graph.rammer") as loaded:
        assert isinstance(loaded, Executable)
        check(loaded)
        assert len(engine.is_open) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"function": 0}, "expected the address of a function, found 0"),
        ({"function": -5}, "expected the address of a function, found -5"),
        ({"function": "f"}, "expected the address of a function, found 'f'"),
        ({"state": None}, "expected an address as state, found None"),
        ({"close": None}, "expected a function as close, found None"),
        ({"explain": "why"}, "expected a function as explain, found 'why'"),
    ],
)
def test_entries_that_cannot_be_called(
    fields: dict[str, Any],
    message: str,
    engine: Products,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Entries that cannot be called are refused; they would end the process at the first run."""

    def answered(_: Products, __: EntryHost) -> OpenEntry:
        given: dict[str, Any] = {"function": 1, "state": 0, "close": list, **fields}
        return OpenEntry(**given)

    monkeypatch.setattr(Products, "open", answered)
    with offloaded() as exe, pytest.raises(TargetError, match=message) as found:
        exe.prepare()
    assert "module 'packed_0_code'" in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (RuntimeError("out of\norder"), "for 'packed_.*', found RuntimeError: out of order; mend"),
        (SystemExit(0), "for 'packed_.*', found SystemExit: 0; mend"),
        (None, "to return an OpenEntry for 'packed_.*', found NoneType; mend the engine"),
        ("an address", "to return an OpenEntry for 'packed_.*', found str; mend the engine"),
    ],
)
def test_an_engine_that_opens_nothing(
    answer: object, message: str, engine: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(_: Products, __: EntryHost) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(Products, "open", answered)
    with offloaded() as exe, pytest.raises(TargetError, match=message) as found:
        exe.prepare()
    assert "\n" not in str(found.value)
    with offloaded(fallback="host") as exe:
        with pytest.warns(FallbackWarning, match="to return an OpenEntry"):
            exe.prepare()
        check(exe)


def test_a_forked_child_opens_its_own(engine: Products) -> None:
    exe = offloaded()
    check(exe)
    child = os.fork()
    if not child:
        code = 1
        try:
            check(exe)
            code = 0 if len(engine.is_open) == 4 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_weights_where_functions_are_shared(packed: PackedProducts) -> None:
    """Without ``holds_weights``, rOperators with different weights share a function.

    Its state gets no weights, so that opening it fails here.
    """
    packed.holds_weights = False
    with pytest.raises(TargetError, match="'packed_0_open' to return 0, found 4") as found:
        offloaded().prepare()
    assert "\n" not in str(found.value)


def test_faults_of_opening(packed: PackedProducts) -> None:
    packed.filled = {"status": "-7"}
    exe = offloaded()
    for begin in (exe.prepare, lambda: exe.run({"x": np.zeros((6, 16), np.float32)})):
        with pytest.raises(TargetError, match="'packed_0_open' to return 0, found -7") as found:
            begin()
        assert "\n" not in str(found.value)


NO_MEMORY = """
  void *volatile more = malloc((size_t)1 << 62);
  if (!more) return 12;
"""


def test_out_of_memory_is_one_line(packed: PackedProducts, tmp_path: Path) -> None:
    """If `malloc` fails when a state is opened, each attempt raises a one-line error.

    The program can be closed afterwards.
    """
    packed.filled = {"find": NO_MEMORY}
    exe = offloaded()
    exe.save(tmp_path / "large.rammer")
    loaded = rammer_mlir.load(tmp_path / "large.rammer")
    assert isinstance(loaded, Executable)
    for executable in (exe, exe, loaded):
        with pytest.raises(TargetError) as found:
            executable.prepare()
        assert str(found.value) == (
            "module 'packed_0_code': expected 'packed_0_open' to return 0, found 12; the program "
            "cannot run here"
        )
    exe.close()
    loaded.close()


def test_states_are_closed_when_a_later_one_lacks_memory(
    engine: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_entry = engine.open

    def fails_the_second_time(host: EntryHost) -> OpenEntry:
        if engine.is_open:
            raise TargetError(f"module '{host.module.name}': expected memory, found none")
        return open_entry(host)

    exe = offloaded()
    with monkeypatch.context() as patch:
        patch.setattr(engine, "open", fails_the_second_time)
        with pytest.raises(TargetError, match=r"^module '\w+': expected memory, found none$"):
            exe.prepare()
        assert engine.is_open == []
    check(exe)
    assert len(engine.is_open) == 2
    exe.close()


MARK_AND_SLEEP = """
  extern int nanosleep(const void *, void *);
  long pause[2] = {0, 60000000};
  ((volatile float *)buffers[2])[row * COLUMNS] = 7;
  nanosleep(pause, 0);
"""


def test_closing_waits_for_a_region_that_runs(packed: PackedProducts) -> None:
    """A run of another thread ends with right results before ``close`` returns; later runs fail."""
    packed.filled = {"before": MARK_AND_SLEEP}
    exe = offloaded(num_veus=2)
    x = np.random.default_rng(1).standard_normal((6, 16)).astype(np.float32)
    v, w = (numpy_helper.to_array(each) for each in two_products().graph.initializer)
    y = np.zeros((6, 16), np.float32)
    with ThreadPoolExecutor() as threads:
        running = threads.submit(exe.run, {"x": x}, {"y": y})
        while not (y[:, 0] == 7).any():
            assert not running.done()
            time.sleep(0.001)
        exe.close()
        found = y.copy()
        running.result()
    np.testing.assert_allclose(found, np.tanh(x @ v) @ w, rtol=1e-5, atol=1e-6)
    for begin in (exe.prepare, lambda: exe.run({"x": x})):
        with pytest.raises(TargetError) as raised:
            begin()
        assert str(raised.value) == "the executable is closed: compile or load it again"


def test_what_a_module_needs(packed: PackedProducts, tmp_path: Path) -> None:
    """A required library's function is found; a package of the wrong version is refused."""
    wanted = '!host->find("LLVMPY_GetVersionInfo") || host->find("nothing")'
    packed.filled = {"find": f"if ({wanted}) return 9;"}
    packed.code = {"needs": (Requirement("llvmlite", library="binding/libllvmlite.so"),)}
    check(offloaded())
    packed.filled = {}
    packed.code = {"needs": (Requirement("numpy", "0.9", extra="offload-none"),)}
    exe = offloaded()
    exe.save(tmp_path / "needs.rammer")
    message = r"package numpy 0.9, found 2.*'pip install rammer-mlir\[offload-none\]'"
    for begin in (exe.prepare, lambda: rammer_mlir.load(tmp_path / "needs.rammer")):
        with pytest.raises(MissingPackageError, match=message) as found:
            begin()
        assert "\n" not in str(found.value)


UNMET = {
    "a package": (Requirement("no-such-package"), "no-such-package, found none; install it"),
    "a library": (
        Requirement("numpy", library="/libnone.so"),
        "library /libnone.so of the package numpy to load",
    ),
}


@pytest.mark.parametrize("name", UNMET)
def test_what_is_not_installed_is_one_line(name: str, packed: PackedProducts) -> None:
    need, message = UNMET[name]
    packed.code = {"needs": (need,)}
    error = MissingPackageError if name == "a package" else TargetError
    with pytest.raises(error, match=message) as found:
        offloaded().prepare()
    assert "\n" not in str(found.value)


class NotATextError(Exception):
    """An exception whose ``__str__`` raises."""

    def __str__(self) -> str:
        """Raise the exception itself instead of returning a text."""
        raise self


def product_of(host: EntryHost) -> Callable[[int, Sequence[int]], None]:
    """Return a Python function ``(row, buffers)`` that computes one row of a product.

    ``host`` has the sizes of the product and the address of the weight; ``buffers`` are the
    addresses of the operands and the result. The C functions that ``PackedProducts`` writes do the
    same.
    """
    rows, sums, columns = map(int, host.module.content.split())
    kind, weight = ctypes.c_float * (sums * columns), host.weights[1]
    w = np.ctypeslib.as_array(kind.from_address(weight or 0)).reshape(sums, columns)

    def run(row: int, buffers: Sequence[int]) -> None:
        x = (ctypes.c_float * (rows * sums)).from_address(buffers[0])
        y = (ctypes.c_float * (rows * columns)).from_address(buffers[2])
        product = np.ctypeslib.as_array(x).reshape(rows, sums)[row] @ w
        np.ctypeslib.as_array(y).reshape(rows, columns)[row] = product

    return run


def test_python_functions_of_engines(
    packed: PackedProducts, engine: Products, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Each exception of an engine's Python function is in the error of the run, and not printed."""
    failing: list[BaseException] = []

    def open_with(_: Products, host: EntryHost) -> OpenEntry:
        product = product_of(host)

        def run(row: int, buffers: Sequence[int]) -> None:
            if failing and isinstance(failing[0], LookupError):
                return 5  # type: ignore[return-value]
            if failing:
                raise failing[0]
            product(row, buffers)

        return python_entry(run, 3)

    monkeypatch.setattr(Products, "open", open_with)
    packed.form, packed.code = "binary", {"engine": engine.name}
    with offloaded() as exe:
        check(exe)
        with pytest.raises(TargetError, match="found 'NotATextError'"):
            failing.append(NotATextError())
            check(exe)
        failing.clear()
        for error in (ValueError("no\nsuch row"), KeyboardInterrupt("now"), LookupError("none")):
            failing.append(error)
            message = f"expected status 0, found '{type(error).__name__}: n"
            if isinstance(error, LookupError):
                message = "found 'TypeError: expected the function to return None, found 5'"
            with pytest.raises(TargetError, match=message) as found:
                check(exe)
            assert "\n" not in str(found.value)
            failing.clear()
            check(exe)
    assert capfd.readouterr().err == ""


def test_runs_of_foreign_code_take_turns(
    packed: PackedProducts, engine: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of several clients never call foreign code concurrently; foreign code may run models."""
    node = helper.make_node("Exp", ["x"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    inner = rammer_mlir.compile(
        helper.make_model(helper.make_graph([node], "inner", values[:1], values[1:]))
    )
    inside: list[int] = []
    most: list[int] = []

    def open_with(_: Products, host: EntryHost) -> OpenEntry:
        product = product_of(host)

        def run(row: int, buffers: Sequence[int]) -> None:
            inside.append(row)
            most.append(len(inside))
            assert np.all(inner.run({"x": np.zeros(3, np.float32)})["y"] == 1)
            product(row, buffers)
            inside.pop()

        return python_entry(run, 3)

    monkeypatch.setattr(Products, "open", open_with)
    packed.form, packed.code = "binary", {"engine": engine.name}
    rammer_mlir.use_threads(1)
    try:
        with offloaded(num_veus=1) as exe, ThreadPoolExecutor(4) as pool:
            for client in [pool.submit(check, exe) for _ in range(12)]:
                client.result()
    finally:
        rammer_mlir.use_threads(None)
    assert set(most) == {1}


def test_faults_of_engines(packed: PackedProducts) -> None:
    packed.form = "graph"
    with pytest.raises(PassError, match="the name of an engine for the form graph") as found:
        offloaded()
    assert "\n" not in str(found.value)
    packed.code = {"engine": "nobody"}
    with pytest.raises(OptionError, match="unknown engine 'nobody'") as unknown:
        offloaded().prepare()
    assert "\n" not in str(unknown.value)
    packed.form = "c"
    with pytest.raises(PassError, match="expected no engine for the form c") as found:
        offloaded()
    assert "\n" not in str(found.value)

"""External rKernels that have a state: opened once, by linked code or by an engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.codegens import Requirement, register_codegen, register_engine
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.errors import MissingPackageError, OptionError, PassError, TargetError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable
from tests.external.states import PackedProducts, Products, check, two_products


@pytest.fixture
def packed() -> Iterator[PackedProducts]:
    """Return a code generator of C with a state, registered for a while."""
    codegen = PackedProducts()
    register_codegen(codegen)
    yield codegen
    CODEGENS.unregister(codegen.name)


@pytest.fixture
def engine(packed: PackedProducts) -> Iterator[Products]:
    """Let the code generator make graphs of an engine, registered for a while."""
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


def test_measured(packed: PackedProducts, engine: Products) -> None:
    """A function is opened with weights where it is measured, and closed after that."""
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
    """Two rOperators of one rKernel have other weights, so its state gets none."""
    packed.holds_weights = False
    with pytest.raises(TargetError, match="'packed_0_open' to return 0, found 4"):
        offloaded().prepare()


def test_faults_of_opening(packed: PackedProducts) -> None:
    packed.filled = {"status": "-7"}
    exe = offloaded()
    with pytest.raises(TargetError, match="'packed_0_open' to return 0, found -7"):
        exe.prepare()
    with pytest.raises(TargetError, match="found -7"):
        exe.run({"x": np.zeros((6, 16), np.float32)})


def test_what_a_module_needs(packed: PackedProducts, tmp_path: Path) -> None:
    """A function of the package's library is found, and the package is looked for."""
    wanted = '!host->find("LLVMPY_GetVersionInfo") || host->find("nothing")'
    packed.filled = {"find": f"if ({wanted}) return 9;"}
    packed.code = {"needs": (Requirement("llvmlite", library="binding/libllvmlite.so"),)}
    check(offloaded())
    packed.filled = {}
    packed.code = {"needs": (Requirement("numpy", "0.9", extra="offload-none"),)}
    exe = offloaded()
    message = r"package numpy 0.9, found 2.*'pip install rammer-mlir\[offload-none\]'"
    with pytest.raises(MissingPackageError, match=message):
        exe.prepare()
    exe.save(tmp_path / "needs.rammer")
    with pytest.raises(MissingPackageError, match=message):
        rammer_mlir.load(tmp_path / "needs.rammer")
    packed.code = {"needs": (Requirement("no-such-package"),)}
    with pytest.raises(MissingPackageError, match="no-such-package, found none; install it"):
        offloaded().prepare()
    packed.code = {"needs": (Requirement("numpy", library="/libnone.so"),)}
    with pytest.raises(TargetError, match=r"library /libnone.so of the package numpy to load"):
        offloaded().prepare()


def test_faults_of_engines(packed: PackedProducts) -> None:
    packed.form = "graph"
    with pytest.raises(PassError, match="the name of an engine for the form graph"):
        offloaded()
    packed.code = {"engine": "nobody"}
    with pytest.raises(OptionError, match="unknown engine 'nobody'"):
        offloaded().prepare()
    packed.form = "c"
    with pytest.raises(PassError, match="expected no engine for the form c"):
        offloaded()

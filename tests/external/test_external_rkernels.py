"""Tests that external rKernels in C, LLVM IR and objects run in a schedule with right results.

They run beside rKernels of the compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import parser

import rammer_mlir
from rammer_mlir.errors import RammerError, TargetError
from rammer_mlir.lowering.external.c_compiler import compile_c
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.runtime.executable import Executable
from tests.external.providers import COLUMNS, ROWS, TRIPLED, TRIPLED_IR, Rows, compiled, offered
from tests.runtime.test_without_compiler import python


def tripled_object() -> bytes:
    return compile_c(ForeignCode("rows", "c", TRIPLED.encode()), host_machine())


def random_x(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def forms() -> list[Rows]:
    return [Rows(), Rows(TRIPLED_IR, "llvm"), Rows(tripled_object(), "object")]


@pytest.mark.parametrize("rows", forms(), ids=lambda rows: rows.form)
def test_each_form(rows: Rows, tmp_path: Path) -> None:
    x = random_x()
    exe = compiled(rows)
    assert np.array_equal(exe.run({"x": x})["y"], 3 * x)
    exe.save(tmp_path / "rows.rammer")
    loaded = rammer_mlir.load(tmp_path / "rows.rammer")
    assert isinstance(loaded, Executable)
    assert [(m.name, m.form) for m in loaded.image.modules] == [("code", rows.form)]
    for executable in (exe, loaded):
        for seed in range(200):
            x = random_x(seed)
            assert np.array_equal(executable.run({"x": x})["y"], 3 * x)


LOADED = """
import numpy as np, rammer_mlir
model = rammer_mlir.load(sys.argv[1])
print([module.form for module in model.image.modules])
np.save(sys.argv[3], model.run({"x": np.load(sys.argv[2])})["y"])
"""


@pytest.mark.parametrize("rows", forms(), ids=lambda rows: rows.form)
def test_loading_needs_no_compiler(rows: Rows, tmp_path: Path) -> None:
    exe, x = compiled(rows), random_x()
    exe.save(tmp_path / "rows.rammer")
    np.save(tmp_path / "x.npy", x)
    paths = [tmp_path / name for name in ("rows.rammer", "x.npy", "y.npy")]
    assert python(LOADED, *paths) == (0, f"['{rows.form}']\n", "")
    found = np.load(tmp_path / "y.npy")
    assert np.array_equal(found, exe.run({"x": x})["y"]) and np.array_equal(found, 3 * x)


@pytest.mark.parametrize("veus", [1, 2, 3])
def test_rtasks_on_several_veus(veus: int) -> None:
    exe = compiled(Rows(), veus=veus)
    spans = [span for span in exe.record({"x": random_x()}).spans if "rows" in span.kernel]
    assert {span.veu for span in spans} == set(range(veus))


def test_beside_own_rkernels() -> None:
    size = f"[{ROWS},{COLUMNS}]"
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float{size} x, float[{COLUMNS},8] w) '
        "=> (float[24,8] z) { y = Relu(x)  z = MatMul(y, w) }"
    )
    x, w = random_x(), np.random.default_rng(1).standard_normal((COLUMNS, 8)).astype(np.float32)
    found = compiled(Rows(), model).run({"x": x, "w": w})["z"]
    assert np.allclose(found, 3 * x @ w, atol=1e-3)


def test_a_view_is_left_to_own_rkernels() -> None:
    """An rOperator that writes a part of a wider array's rows gets no external rKernel."""
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[{ROWS},{COLUMNS}] x, float[{ROWS},8] v) '
        f"=> (float[{ROWS},{COLUMNS + 8}] z) {{ y = Relu(x)  u = Neg(v) "
        "z = Concat<axis = 1>(y, u) }"
    )
    x, v = random_x(), random_x(1)[:, :8].copy()
    exe = compiled(Rows(), model)
    found = exe.run({"x": x, "v": v})["z"]
    assert exe.image.modules == ()
    assert np.array_equal(found, np.concatenate([np.maximum(x, 0), -v], 1))


def test_a_status_is_an_error(tmp_path: Path) -> None:
    exe = compiled(Rows())
    exe.save(tmp_path / "rows.rammer")
    loaded = rammer_mlir.load(tmp_path / "rows.rammer")
    x = random_x()
    wrong = x.copy()
    wrong[7, 0] = 1e7
    for executable in (exe, loaded):
        message = r"rows.*of rOperator 'Relu:y'.*status 0, found -3"
        with pytest.raises(TargetError, match=message) as found:
            executable.run({"x": wrong})
        assert "\n" not in str(found.value)
        assert np.array_equal(executable.run({"x": x})["y"], 3 * x)


def test_measured_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow code is measured, and not chosen; faster code for the same operator is chosen."""
    monkeypatch.setenv("RAMMER_PROFILES", str(tmp_path / "profiles.sqlite"))
    slow = TRIPLED.replace("return", "for (volatile int n = 0; n < 100000; n++) {}  return")
    summaries: list[tuple[str, ...]] = []
    for code in (slow, TRIPLED):
        with offered(Rows(code)):
            exe = rammer_mlir.compile(
                parser.parse_model(_WIDE), rkernels="rows", costs="measured", num_veus=1
            )
        assert isinstance(exe, Executable)
        summaries.append(tuple(m.name for m in exe.image.modules))
    assert summaries == [(), ("code",)]


_WIDE = f"""<ir_version: 9, opset_import: ["": 18]>
g (float[{ROWS},{COLUMNS}] x) => (float[{ROWS},{COLUMNS}] y) {{
  a = Sin(x)  b = Cos(a)  c = Sin(b)  d = Cos(c)  e = Sin(d)  f = Cos(e)  y = Sin(f) }}"""
"""A model that takes the compiler's own rKernel much longer than a product by three."""


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Rows("int rows("), "module 'code': expected C that '.*' compiles, found"),
        (Rows("define nothing", "llvm"), "module 'code': expected LLVM IR that LLVM .* parses"),
        (
            Rows(b"nothing", "object"),
            "module .code.: expected an object that this process can load",
        ),
        (Rows(symbol="columns"), "module 'code': .* the function 'columns', found none"),
        (Rows(TRIPLED_IR, "llvm", "columns"), "definition of the function 'columns', found none"),
        (Rows(symbol="2 columns"), "a symbol module and the name of a function in external"),
        (Rows(form="fortran"), "form of code: expected one of c, llvm, object"),
        (Rows(code=""), "an empty string"),
        (Rows(code=cast("Any", None)), "provider 'rows': code: expected text or bytes, found None"),
        (Rows(symbol=cast("Any", 3)), "provider 'rows': symbol: expected the name of a function,"),
        (
            Rows(work={"num_rtasks": "24"}),
            r"'func.func'.*: provider 'rows': num_rtasks: expected an integer .*, found '24'; mend",
        ),
        (Rows(work={"operations": None}), "provider 'rows': operations: expected an integer from"),
        (Rows(work={"num_bytes": -1}), "provider 'rows': num_bytes: expected an integer from 0 to"),
        (
            Rows(work={"reads": {5: (("d0", 1), (0, COLUMNS))}}),
            "provider 'rows': reads: expected numbers from 0 to 0, found 5; mend it, or",
        ),
        (Rows(box=(("d0 +", 1), (0, COLUMNS))), "reads: expected an offset in terms of d0, as"),
        (Rows(work={"writes": {0: [("d0", 1)]}}), "writes: expected 2 pairs of an offset and a si"),
        (Rows(box=(("d0", 2), (0, COLUMNS))), "every element of argument 1 in one rTask's box"),
    ],
    ids=[
        "C", "IR", "object", "symbol", "symbol of IR", "name", "form", "code", "no code",
        "no symbol", "rTasks", "operations", "bytes", "number of a box", "offset", "rank", "boxes",
    ],
)  # fmt: skip
def test_faults_are_one_line(rows: Rows, message: str) -> None:
    with pytest.raises(RammerError, match=message) as found:
        compiled(rows)
    assert "\n" not in str(found.value)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(TargetError, match=r"module 'code': .*no-such-compiler"):
        compiled(Rows())


def test_the_example(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/your_own_rkernel.py"
    settings = os.environ | {"RAMMER_PROFILES": str(tmp_path / "profiles.sqlite")}
    done = subprocess.run(
        [sys.executable, str(example)], env=settings, capture_output=True, text=True, check=True
    )
    assert "form='c'" in done.stdout
    assert float(done.stdout.split()[-1]) < 1e-3

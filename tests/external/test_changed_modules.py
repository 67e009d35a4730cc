"""Artifacts whose foreign code was changed later are refused in one line, and never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.benchmarks.models import build
from rammer_mlir.errors import ArtifactError, RammerError
from rammer_mlir.runtime.executable import Executable
from tests.runtime.artifacts import contents, refusal, rewritten, write_members

ENGINES = ["numpy", "onnxruntime", "openvino"]

MODULE = "modules/0.bin"

Change = Callable[[bytes], bytes]

CHANGES: dict[str, Change] = {
    "a bit": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "less": lambda data: data[:-1],
    "more": lambda data: data + b" ",
    "nothing": lambda data: b"",
}


@pytest.fixture(scope="module", params=ENGINES)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of an artifact with a region that an engine computes."""
    path = tmp_path_factory.mktemp("artifacts") / "mlp.rammer"
    with rammer_mlir.compile(
        build("mlp", scale="small"), offload=request.param, offload_choice="always", cache=False
    ) as exe:
        exe.save(path)
    assert MODULE in contents(path)
    return path


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_module_is_refused(change: str, saved: Path, tmp_path: Path) -> None:
    members = contents(saved)
    members[MODULE] = CHANGES[change](members[MODULE])
    path = write_members(tmp_path / "changed.rammer", members)
    assert "was changed since it was compiled" in refusal(path)


def test_a_missing_module_is_refused(saved: Path, tmp_path: Path) -> None:
    members = contents(saved)
    del members[MODULE]
    path = write_members(tmp_path / "missing.rammer", members)
    assert "was changed since it was compiled" in refusal(path)


def unchanged(_: dict[str, Any]) -> None:
    """Leave an artifact's manifest as it is, so that only the module is changed."""


BROKEN = {
    "no JSON": b"{",
    "another format": b'{"format": "pictures"}',
    "no bytes": b"",
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_module_that_an_engine_cannot_open_is_one_line(
    content: str, saved: Path, tmp_path: Path
) -> None:
    """A module that an engine cannot open is refused in one line, even with a right seal."""
    members: dict[str, Any] = {"modules/0": BROKEN[content]}
    path = rewritten(saved, tmp_path / "broken.rammer", unchanged, **members)
    with pytest.raises(RammerError, match=r"module '\w+_code': ") as found:
        loaded = rammer_mlir.load(path)
        assert isinstance(loaded, Executable)
        with loaded:
            loaded.prepare()
    assert "\n" not in str(found.value) and not isinstance(found.value, ArtifactError)


@pytest.mark.parametrize("engine", ENGINES)
def test_two_modules_stay_apart(engine: str, tmp_path: Path) -> None:
    """Two modules give right results; an artifact whose two modules are exchanged is refused."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      g (float[4,8] x, float[4,8] z) => (float[4,6] y, float[4,5] u) {
        y = MatMul(x, v)  u = MatMul(z, w) }""")
    rng = np.random.default_rng(2)
    for name, columns in (("v", 6), ("w", 5)):
        values = rng.standard_normal((8, columns)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    v, w = (numpy_helper.to_array(each).astype(np.float64) for each in model.graph.initializer)
    x, z = (rng.standard_normal((4, 8)).astype(np.float32) for _ in range(2))
    path = tmp_path / "two.rammer"
    with rammer_mlir.compile(model, offload=engine, offload_choice="always", cache=False) as exe:
        exe.save(path)
    with rammer_mlir.load(path) as loaded:
        found: dict[str, Any] = loaded.run({"x": x, "z": z})
    np.testing.assert_allclose(found["y"], x @ v, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["u"], z @ w, rtol=1e-5, atol=1e-5)
    members = contents(path)
    first, second = (members[f"modules/{n}.bin"] for n in range(2))
    exchanged = {**members, "modules/0.bin": second, "modules/1.bin": first}
    path = write_members(tmp_path / "exchanged.rammer", exchanged)
    assert "was changed since it was compiled" in refusal(path)


def test_c_code_is_sealed_too(products: Any, tmp_path: Path) -> None:
    """C code is a part of the program's library, which the seal covers."""
    path = tmp_path / "mlp.rammer"
    model = build("mlp", scale="small")
    with rammer_mlir.compile(
        model, offload="products", offload_choice="always", cache=False
    ) as exe:
        exe.save(path)
    members = contents(path)
    assert MODULE not in members
    (name,) = (name for name in members if name.startswith("code"))
    middle = len(members[name]) // 2
    code = np.frombuffer(members[name], np.uint8).copy()
    code[middle] ^= 1
    changed = write_members(tmp_path / "changed.rammer", {**members, name: code.tobytes()})
    assert "was changed since it was compiled" in refusal(changed)

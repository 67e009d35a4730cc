"""Tests that models with regions that a code generator compiles give right results.

Regions that cost more than the host's rOperators are not taken; wrong code is refused.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.codegens import Region, RegionCode
from rammer_mlir.errors import OptionError, PassError, TargetError
from rammer_mlir.runtime.executable import Executable
from tests.external.conftest import EXAMPLE
from tests.runtime.test_without_compiler import python


def offloaded(
    model: Any, *, choice: str = "always", policy: str = "wavefront", veus: int = 2
) -> Executable:
    found = rammer_mlir.compile(
        model, offload="products", offload_choice=choice, policy=policy, num_veus=veus, cache=False
    )
    assert isinstance(found, Executable)
    return found


@pytest.mark.parametrize("policy", ["wavefront", "list"])
@pytest.mark.parametrize("veus", [1, 2, 3])
def test_a_model(policy: str, veus: int, products: Any, tmp_path: Path) -> None:
    model = build("mlp")
    feeds = random_feeds(model, 0)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, feeds), strict=True))
    exe = offloaded(model, policy=policy, veus=veus)
    assert exe.image.modules
    exe.save(tmp_path / "mlp.rammer")
    verify(tmp_path / "mlp.rammer")
    loaded = rammer_mlir.load(tmp_path / "mlp.rammer")
    assert isinstance(loaded, Executable)
    for executable in (exe, loaded):
        found = executable.run(feeds)
        for name in names:
            wanted = np.asarray(expected[name])
            np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)
    first = exe.run(feeds)
    for _ in range(200):
        assert all(np.array_equal(exe.run(feeds)[name], first[name]) for name in names)


LOADED = """
import numpy as np, rammer_mlir
given = dict(np.load(sys.argv[2]))
model = rammer_mlir.load(sys.argv[1])
assert {module.form for module in model.image.modules} == {"c"}
np.savez(sys.argv[3], allow_pickle=False, **model.run(given))
"""


def test_c_code_needs_no_compiler(products: Any, tmp_path: Path) -> None:
    """A process without MLIR loads an artifact with C code; its outputs are equal bit for bit."""
    model = build("mlp")
    feeds = random_feeds(model, 0)
    exe = offloaded(model)
    assert exe.image.modules
    exe.save(tmp_path / "mlp.rammer")
    np.savez(tmp_path / "x.npz", allow_pickle=False, **feeds)
    paths = [tmp_path / name for name in ("mlp.rammer", "x.npz", "y.npz")]
    assert python(LOADED, *paths) == (0, "", "")
    loaded, wanted = np.load(tmp_path / "y.npz"), exe.run(feeds)
    assert set(loaded.files) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(loaded[name], value)


def test_what_costs_more_is_the_hosts(products: Any) -> None:
    """With `cost`, code that is predicted to be no faster is not taken."""
    products.generate = made(RegionCode("int32_t f();", "f"))
    model = build("mlp")
    exe = offloaded(model, choice="cost")
    feeds = random_feeds(model, 0)
    plain = rammer_mlir.compile(model, num_veus=2, cache=False)
    for name, value in plain.run(feeds).items():
        np.testing.assert_allclose(exe.run(feeds)[name], value, rtol=1e-4, atol=1e-5)
    assert exe.image.modules == ()


def made(found: Any) -> Callable[[Region], Any]:
    """Return a stand-in for a generator's ``generate`` that returns ``found`` for any region."""
    return lambda region: found


def fails(region: Region) -> RegionCode:
    """Raise an error: a stand-in for a code generator's ``generate``."""
    raise ValueError("no registers left")


@pytest.mark.parametrize(
    ("generate", "error", "message"),
    [
        (fails, PassError, "'products': expected generate to succeed, found ValueError: no regis"),
        (
            made(1),
            PassError,
            "a RegionCode of form c, llvm, object, graph, binary or None, found int",
        ),
        (made(RegionCode("", "f", "pascal")), PassError, "or None, found the form pascal"),
        (made(RegionCode("int g;", "f")), TargetError, "definition of the function 'f'"),
        (made(RegionCode("int f(", "f")), TargetError, "expected C that '.*' compiles, found"),
    ],
    ids=["raises", "type", "form", "symbol", "source"],
)
def test_faults_are_one_line(
    generate: Any, error: type[Exception], message: str, products: Any
) -> None:
    products.generate = generate
    with pytest.raises(error, match=message) as found:
        offloaded(build("mlp"))
    assert "\n" not in str(found.value)


def test_weights_of_one_number_are_the_hosts(products: Any) -> None:
    """Weights of equal elements, which are written in the IR, give the host's results."""
    model = build("mlp", scale="small")
    for tensor in model.graph.initializer:
        values = np.full(tuple(tensor.dims), 0.25, np.float32)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    feeds = random_feeds(model, 0)
    plain = rammer_mlir.compile(model, num_veus=2, cache=False)
    exe = offloaded(model)
    for name, value in plain.run(feeds).items():
        np.testing.assert_allclose(exe.run(feeds)[name], value, rtol=1e-4, atol=1e-5)


def test_options() -> None:
    with pytest.raises(OptionError, match="code generator 'nobody'"):
        rammer_mlir.compile(build("mlp"), offload="nobody")
    with pytest.raises(OptionError, match="offload_choice: expected 'cost' or 'always'"):
        rammer_mlir.compile(build("mlp"), offload_choice="never")
    with pytest.raises(OptionError, match="offload_check"):
        rammer_mlir.compile(build("mlp"), offload_check=True, target="nvvm:sm_90")


def test_the_example() -> None:
    command = [sys.executable, str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "2 regions in C" in done.stdout
    assert float(done.stdout.split()[-1]) < 1e-5

"""Models whose regions a code generator compiles: numbers, choices, faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.errors import OptionError, PassError, TargetError
from rammer_mlir.extend import Region, RegionCode
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
from your_own_codegen import Products  # noqa: E402


@pytest.fixture
def products() -> Iterator[Products]:
    generator = Products()
    CODEGENS.register("products", generator)
    yield generator
    CODEGENS.unregister("products")


def offloaded(model: Any, **options: Any) -> Executable:
    found = rammer_mlir.compile(
        model, offload="products", **{"offload_choice": "always", "cache": False, **options}
    )
    assert isinstance(found, Executable)
    return found


@pytest.mark.parametrize("policy", ["wavefront", "list"])
@pytest.mark.parametrize("veus", [1, 2, 3])
def test_a_model(policy: str, veus: int, products: Products, tmp_path: Path) -> None:
    model = build("mlp")
    feeds = random_feeds(model, 0)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, feeds), strict=True))
    exe = offloaded(model, policy=policy, num_veus=veus)
    assert exe.image.modules
    exe.save(tmp_path / "mlp.rammer")
    verify(tmp_path / "mlp.rammer")
    loaded = rammer_mlir.load(tmp_path / "mlp.rammer")
    for executable in (exe, loaded):
        found = executable.run(feeds)
        for name in names:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)
    first = exe.run(feeds)
    for _ in range(200):
        assert all(np.array_equal(exe.run(feeds)[name], first[name]) for name in names)


def test_what_costs_more_is_the_hosts(products: Products) -> None:
    """The policy knows no better of foreign code than its arithmetic, unless it is measured."""
    products.generate = lambda region: RegionCode("int32_t f();", "f")  # type: ignore[method-assign]
    model = build("mlp")
    exe = offloaded(model, offload_choice="cost", num_veus=2)
    feeds = random_feeds(model, 0)
    plain = rammer_mlir.compile(model, num_veus=2, cache=False)
    for name, value in plain.run(feeds).items():
        np.testing.assert_allclose(exe.run(feeds)[name], value, rtol=1e-4, atol=1e-5)
    assert exe.image.modules == ()


def fails(region: Region) -> RegionCode:
    raise ValueError("no registers left")


@pytest.mark.parametrize(
    ("generate", "error", "message"),
    [
        (fails, PassError, "'products': expected generate to succeed, found ValueError: no regis"),
        (
            lambda _: 1,
            PassError,
            "a RegionCode of form c, llvm, object or None, found int",
        ),
        (lambda _: RegionCode("", "f", "pascal"), PassError, "or None, found pascal"),
        (lambda _: RegionCode("int g;", "f"), TargetError, "definition of the function 'f'"),
        (lambda _: RegionCode("int f(", "f"), TargetError, "expected C that '.*' compiles, found"),
    ],
    ids=["raises", "type", "form", "symbol", "source"],
)
def test_faults_are_one_line(
    generate: Any, error: type[Exception], message: str, products: Products
) -> None:
    products.generate = generate
    with pytest.raises(error, match=message) as found:
        offloaded(build("mlp"))
    assert "\n" not in str(found.value)


def test_options() -> None:
    with pytest.raises(OptionError, match="code generator 'nobody'"):
        rammer_mlir.compile(build("mlp"), offload="nobody")
    with pytest.raises(OptionError, match="offload_choice: expected 'cost' or 'always'"):
        rammer_mlir.compile(build("mlp"), offload_choice="never")
    with pytest.raises(OptionError, match="offload"):
        rammer_mlir.compile(build("mlp"), offload="nobody", target="nvvm:sm_90")


def test_the_example() -> None:
    command = [sys.executable, str(EXAMPLES / "your_own_codegen.py")]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
    assert "2 regions in C" in done.stdout
    assert float(done.stdout.split()[-1]) < 1e-5

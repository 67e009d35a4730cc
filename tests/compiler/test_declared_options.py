"""Each option is declared once, and is in the tools' help, the docstring and the cache key."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import run as run_tool
from rammer_mlir.compiler.caching.keys import compile_key
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OptionError
from rammer_mlir.options import declared_options, with_defaults
from tests.cli.tools import save_layer

OTHER: dict[str, Any] = {
    "policy": "sequential", "num_veus": 7, "costs": "h100", "boundary": "cost",
    "temporaries": False, "merge": 2.0, "winograd": False, "memory_budget": 1 << 20,
    "watchdog": 9, "per_operator": True, "offload_seconds": 5.0,
    "offload_check": True, "fallback": "host",
    "quantize": 16, "calibration": {"x": np.ones((1, 4, 8), np.float32)},
    "quantize_bound": 40.0, "quantize_method": "entropy", "quantize_dynamic": True,
}  # fmt: skip
"""For each option a value that is not its default."""

QUANTIZED: dict[str, Any] = {"quantize": 8, "calibration": {"x": np.zeros((1, 4, 8), np.float32)}}
"""The options that the other options of quantization require."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a model of two layers."""
    return save_layer(tmp_path_factory.mktemp("models") / "layer.onnx").read_bytes()


def test_every_option_is_tried_here() -> None:
    # Providers of rKernels and code generators come from outside: they are tried with these.
    outside = {"rkernels", "offload", "offload_choice", "module_options"}
    assert {*OTHER, *outside} == {declared.name for declared in declared_options()}
    assert all(with_defaults({})[name] != value for name, value in OTHER.items())  # type: ignore[literal-required]


@pytest.mark.parametrize("tool", [compile_tool, run_tool], ids=["compile", "run"])
def test_help_names_every_option(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main(["--help"])
    shown = capsys.readouterr().out
    for declared in declared_options():
        assert re.search(rf"^  {re.escape(declared.flag)}\b", shown, re.MULTILINE), declared.flag


def test_the_docstring_names_every_option() -> None:
    text = rammer_mlir.compile.__doc__ or ""
    for declared in declared_options():
        assert f"\n        {declared.name}: " in text


@pytest.mark.parametrize("name", OTHER)
def test_every_option_is_in_the_key_of_the_cache(name: str, model: bytes) -> None:
    target = "nvvm" if name in ("watchdog", "per_operator") else "cpu"
    given = QUANTIZED if name in QUANTIZED or name.startswith("quantize") else {}
    plain = compile_key(model, check_options(target, **given), None)
    other = compile_key(model, check_options(target, **{**given, name: OTHER[name]}), None)
    assert plain is not None and other is not None and plain != other


@pytest.mark.parametrize(
    "boundary", ["all", "none=1", "inputs", "inputs=", "inputs=-1", "inputs=x", "cost=3"]
)
def test_a_boundary_that_does_not_exist(boundary: str) -> None:
    with pytest.raises(OptionError, match="boundary: expected none, parallelism, cost, or inp"):
        check_options(boundary=boundary)


@pytest.mark.parametrize(
    ("boundary", "target", "written"),
    [
        ("parallelism", "cpu", "rtask-form-operators{enough=12},"),
        ("none", "cpu", "rtask-form-operators{boundary=none},"),
        ("inputs=5", "cpu", "rtask-form-operators{boundary=inputs inputs=5}"),
        ("cost", "cpu", 'rtask-form-operators{boundary=cost device="cpu" num-veus=3}'),
        ("cost", "nvvm", "num-veus=3 per-operator=true}"),
    ],
)
def test_the_pass_gets_the_boundary(boundary: str, target: str, written: str) -> None:
    options = check_options(target, boundary=boundary, num_veus=3, per_operator=target == "nvvm")
    stage = next(s for s in options.portable_stages() if s.name == "operators")
    assert written in stage.pipeline


def test_an_option_that_does_not_exist(model: bytes) -> None:
    unknown: dict[str, Any] = {"wingorad": False}
    with pytest.raises(OptionError, match="wingorad: unknown option, expected one of policy, "):
        rammer_mlir.compile(model, **unknown)


@pytest.mark.parametrize("name", ["watchdog", "per_operator"])
def test_options_of_gpus_on_a_cpu(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}: expected a GPU as target, found 'cpu'"):
        check_options("cpu", **{name: OTHER[name]})
    check_options("nvvm", **{name: OTHER[name]})

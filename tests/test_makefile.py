"""The demo's environment has what it needs, and no more."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest

from tests.test_layering import ROOT

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]


def commands(target: str, venv: str) -> str:
    """Return what make would run in an empty place."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = subprocess.run(
        ["make", "--dry-run", target, f"VENV={venv}"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_installs_what_it_needs(tmp_path: object) -> None:
    found = commands("demo", f"{tmp_path}/venv")
    assert "extras=demo;" in found and "[dev]" not in found
    names = [re.split(r"[=<>\[]", name)[0] for name in EXTRAS["demo"]]
    assert names == ["onnxruntime"]


def test_tests_install_everything(tmp_path: object) -> None:
    assert '".[dev]"' in commands("unit", f"{tmp_path}/venv")
    assert any("demo" in name for name in EXTRAS["dev"] if name.startswith("rammer-mlir["))


def test_a_gpu_kit_is_packed_for_a_chip(tmp_path: object) -> None:
    found = commands("gpu-kit", f"{tmp_path}/venv")
    assert "gpu.kit pack build/gpu-kit --target nvvm:sm_90 --jobs 2" in found

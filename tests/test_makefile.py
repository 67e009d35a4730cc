"""Tests that the Makefile installs each environment's extras in the versions of the lock file."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_layering import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

APART = ("jax", "torch", "offload-cuda")
"""Extras that neither the tests nor the documentation install."""


def commands(target: str, venv: str) -> str:
    """Return the commands that make would run for ``target`` with the environment ``venv``."""
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


def test_environments_have_the_locked_versions(tmp_path: object) -> None:
    for target in ("demo", "unit", "docs", "bench"):
        installs = [
            line
            for line in commands(target, f"{tmp_path}/venv").splitlines()
            if "pip install" in line
        ]
        assert installs and all("--constraint requirements.lock" in line for line in installs)


def test_the_lock_file_is_within_the_ranges() -> None:
    """The lock file has a version in the range of each requirement, and contains no URL."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    locked = {
        canonicalize_name(entry.name): str(entry.specifier).removeprefix("==")
        for entry in map(Requirement, lines)
    }
    groups = [PROJECT["dependencies"], *(EXTRAS[name] for name in EXTRAS if name not in APART)]
    wanted = [Requirement(text) for group in groups for text in group]
    wrong = [
        str(each)
        for each in wanted
        if each.name != "rammer-mlir"
        and not each.specifier.contains(locked[canonicalize_name(each.name)])
    ]
    assert wrong == []


def test_a_gpu_kit_is_packed_for_a_chip(tmp_path: object) -> None:
    found = commands("gpu-kit", f"{tmp_path}/venv")
    assert "gpu.kit pack build/gpu-kit --target nvvm:sm_90 --jobs 2" in found

"""Tests that all names of ``rammer_mlir`` exist, and that importing it loads no compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rammer_mlir
from rammer_mlir import errors
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from tests.test_layering import PACKAGE, ROOT


def test_all_names_exist_and_are_listed() -> None:
    assert all(hasattr(rammer_mlir, name) for name in rammer_mlir.__all__)
    assert set(rammer_mlir.__all__) <= set(dir(rammer_mlir))


def test_every_error_is_at_the_top() -> None:
    family = {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.RammerError)
    }
    assert {name: getattr(rammer_mlir, name) for name in family} == family
    assert family.keys() <= set(rammer_mlir.__all__)


def test_the_kinds_of_models_are_at_the_top() -> None:
    assert rammer_mlir.Executable is Executable
    assert rammer_mlir.OpenModel is OpenModel
    assert rammer_mlir.GpuExecutable is GpuExecutable
    assert rammer_mlir.EmulatedExecutable is EmulatedExecutable


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'rammer_mlir' has no attribute 'Tensor'"):
        _ = rammer_mlir.Tensor  # type: ignore[attr-defined]


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stale = "the installed metadata is old: run pip install --no-deps --editable ."
    assert rammer_mlir.__version__ == project["version"], stale


def test_every_version_has_an_entry_in_the_change_log() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changes, re.MULTILINE)
    assert newest is not None and newest[1] == project["version"]


def test_sources_alone_have_no_version(tmp_path: Path) -> None:
    """A package whose folder was copied, not installed, has the version ``0+unknown``."""
    (tmp_path / "rammer_mlir").symlink_to(PACKAGE)
    script = "import rammer_mlir; print(rammer_mlir.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-S", "-c", script]  # without the installed packages
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("0+unknown\n", "")


def imported(command: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter has loaded after a command."""
    script = f"import sys; {command}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_importing_the_package_imports_no_model_and_no_compiler() -> None:
    found = imported("import rammer_mlir")
    rooms = {name.split(".")[1] for name in found if name.startswith("rammer_mlir.")}
    assert rooms == {"errors", "options"}
    assert "numpy" not in found


def test_naming_a_model_imports_no_compiler() -> None:
    found = imported("from rammer_mlir import Executable, GpuExecutable, OpenModel")
    assert not {"rammer_mlir.compiler", "mlir", "torch_mlir", "onnx", "llvmlite"} & found

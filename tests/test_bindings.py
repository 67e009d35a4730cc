"""Tests of which package provides the MLIR bindings, and of the type stubs of the bindings."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rammer_mlir import bindings, dialects
from rammer_mlir.bindings import ir

ROOT = Path(__file__).resolve().parent.parent
STUBS = ROOT / "rammer_mlir" / "bindings"


def import_bindings(variable: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Import the bindings in a separate process, which prints the package's name.

    ``variable`` is the value of ``RAMMER_MLIR_BINDINGS``; ``path`` is searched for packages first.
    Returns the completed process.
    """
    environment = dict(os.environ, PYTHONPATH=f"{path}{os.pathsep}{ROOT}")
    environment["RAMMER_MLIR_BINDINGS"] = variable
    command = "from rammer_mlir import bindings; print(bindings.PACKAGE, bindings.ir.__name__)"
    return subprocess.run(
        [sys.executable, "-c", command], env=environment, capture_output=True, text=True
    )


def fake_package(path: Path, files: dict[str, str]) -> None:
    """Write a package to the folder ``path``; ``files`` has the texts of its files by name."""
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_the_variable_names_the_package(tmp_path: Path) -> None:
    done = import_bindings("torch_mlir", tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("torch_mlir torch_mlir.ir", "")


def test_mlir_is_preferred_if_it_is_new_enough(tmp_path: Path) -> None:
    alias = "from torch_mlir.{0} import *\n"
    fake_package(
        tmp_path / "mlir",
        {
            "__init__.py": "",
            "ir.py": alias.format("ir"),
            "passmanager.py": alias.format("passmanager"),
            "dialects/__init__.py": "",
            "dialects/ext.py": alias.format("dialects.ext"),
            "_mlir_libs/__init__.py": "",
            "_mlir_libs/_mlir.py": "from torch_mlir._mlir_libs._mlir import globals\n",
        },
    )
    done = import_bindings("", tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("mlir mlir.ir", "")


@pytest.mark.parametrize(
    "files",
    [
        {"__init__.py": "", "ir.py": ""},
        {"__init__.py": "", "ir.py": "", "dialects/__init__.py": "", "dialects/ext.py": ""},
        {"__init__.py": "raise ImportError('made for another Python')"},
    ],
    ids=["no ext", "no traits", "broken"],
)
def test_an_old_mlir_is_passed_over(tmp_path: Path, files: dict[str, str]) -> None:
    fake_package(tmp_path / "mlir", files)
    done = import_bindings("", tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("torch_mlir torch_mlir.ir", "")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "'chosen' cannot be imported (No module named 'chosen')"),
        ({"__init__.py": ""}, "'chosen' cannot be imported"),
        (
            {"__init__.py": "", "dialects/__init__.py": ""},
            "'chosen' is too old: it has no module 'dialects.ext'",
        ),
        (
            {"__init__.py": "", "ir.py": "", "dialects/__init__.py": "", "dialects/ext.py": ""},
            "'chosen' is too old: its module 'ir' has no 'DynamicOpTrait'",
        ),
    ],
    ids=["missing", "no dialects", "no ext", "no traits"],
)
def test_an_unusable_choice_is_refused(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    fake_package(tmp_path / "chosen", files)
    done = import_bindings("chosen", tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("rammer_mlir.errors.MissingPackageError: expected MLIR Python bindings")
    assert reason in last
    assert "unset RAMMER_MLIR_BINDINGS or set it to one of mlir, torch_mlir" in last


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lnalg'"):
        _ = bindings.lnalg  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


class ImportRecorder:
    """An import finder that records the name of every module, and finds none."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Record the module's name."""
        self.names.append(name)


def test_accessing_operations_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accessing operations of the dialect looks for no module.

    The bindings would otherwise look for the module of a dialect again on every access.
    """
    recorder = ImportRecorder()
    with ir.Context() as context, ir.Location.unknown():
        dialects.register(context)
        veu = '"rtask.veu"() ({ ^bb0: }) {id = 0 : i64} : () -> ()'
        module = ir.Module.parse(
            f'"rtask.program"() ({{ {veu} }}) {{device = "cpu", num_veus = 1 : i64}} : () -> ()'
        )
        monkeypatch.setattr(sys, "meta_path", [recorder, *sys.meta_path])
        names = [op.operation.name for _ in range(9) for op in module.body.operations]
    assert names == ["rtask.program"] * 9
    assert recorder.names == []


def stub_members() -> list[tuple[str, str, str]]:
    """Return (module, class, member) for all classes and their members in the stubs.

    The member is empty in the entry of the class itself.
    """
    found: list[tuple[str, str, str]] = []
    for stub in sorted(STUBS.glob("*.pyi")):
        module = {"ext": "dialects.ext", "passmanager": "passmanager"}.get(stub.stem, "ir")
        if stub.stem == "__init__":
            continue
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.append((module, node.name, ""))
                found.extend((module, node.name, name) for name in member_names(node))
    return found


def member_names(node: ast.ClassDef) -> list[str]:
    """Return the names that a stub's class defines, except those with two leading underscores."""
    names: dict[str, None] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            names[item.name] = None
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names[item.target.id] = None
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            names[item.targets[0].id] = None
    return [name for name in names if not name.startswith("__")]


def test_stubs_describe_what_is_there() -> None:
    """Every class, method and property in the stubs exists in the bindings."""
    # Set by `ext` when a dialect or an operation is defined, so not on the base classes.
    defined_later = {"DIALECT_NAMESPACE", "operations", "OPERATION_NAME"}
    members = stub_members()
    missing: list[str] = []
    for module, owner, name in members:
        # The properties of both kinds of operation, which the bindings define on each.
        real = "Operation" if owner == "_OperationBase" else owner
        kind = getattr(bindings.submodule(module), real, None)
        if kind is None:
            missing.append(f"{module}.{owner}")
        elif name and name not in defined_later and name not in all_names(kind):
            missing.append(f"{module}.{owner}.{name}")
    assert len(members) > 300
    assert missing == []


def all_names(kind: type) -> set[str]:
    """Return the names of the attributes of a class, including those of its base classes.

    Static properties such as ``current`` are not evaluated.
    """
    return {name for base in kind.__mro__ for name in vars(base)}

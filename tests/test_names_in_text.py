"""Tests that modules and files named in docstrings, comments and documents exist."""

from __future__ import annotations

import ast
import importlib
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from rammer_mlir.compiler.backends.registry import TARGETS
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.passes.registry import EXTENSION_PASSES
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
from rammer_mlir.scheduling.devices.catalog import DEVICES
from rammer_mlir.scheduling.policies import POLICIES
from rammer_mlir.support.plugins import Registry
from tests.test_layering import PACKAGE, ROOT, source_files

TOPS = ("dialects", "passes", "lowering", "rammer_mlir", "tests", "lit_tests", "docs", "examples")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

MODULE = re.compile(r"\brammer_mlir(?:\.\w+)+")
PLACE = re.compile(r"`([\w./*-]*(?:\.py|/))`")
"""A Python file or a folder between backquotes; ``*`` stands for any characters."""

REGISTRIES: tuple[Registry[Any], ...] = (
    CODEGENS, COST_FUNCTIONS, DEVICES, EXTENSION_PASSES, KERNEL_PROVIDERS, POLICIES, TARGETS
)  # fmt: skip
GROUPS = {registry.group for registry in REGISTRIES}
"""Groups of entry points, whose names look like those of modules."""


def texts(file: Path) -> Iterator[str]:
    """Yield the texts to check in a file: a document, or a source's docstrings and comments."""
    source = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield source
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


MADE = {"build/", "dist/"}
"""Folders that make creates, which a fresh clone lacks."""

FRAMEWORKS = {"jax", "torch"}
"""Packages that have an environment of their own."""


@cache
def places() -> list[PurePosixPath]:
    """Return all files and folders of the project."""
    found = [path for top in TOPS for path in (ROOT / top).rglob("*")]
    return [PurePosixPath(path.relative_to(ROOT)) for path in found] + list(
        map(PurePosixPath, TOPS)
    )


def is_place(name: str) -> bool:
    """Return whether a path exists, relative to any folder of the project, or is made by make."""
    return (
        name in MADE
        or (ROOT / name).exists()
        or any(place.match(name.rstrip("/")) for place in places())
    )


def is_name(name: str) -> bool:
    """Return whether a dotted name is that of a module, or of an object that a module defines."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        if not path.is_dir() and not path.with_suffix(".py").exists():
            continue
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            # It imports a framework that is not installed here.
            return count == len(parts) and (error.name or "").partition(".")[0] in FRAMEWORKS
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("rammer_mlir.errors.RammerError", True),
        ("rammer_mlir.errors.NoSuchError", False),
        ("rammer_mlir.no_such_module", False),
        ("rammer_mlir.passes.base", True),
    ],
)
def test_names_are_told_from_others(name: str, exists: bool) -> None:
    assert is_name(name) == exists


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("passes/rtask_tile.py", True),
        ("scheduling/replay.py", True),
        ("rtask_*.py", True),
        ("dialects/", True),
        ("passes/no_such_pass.py", False),
        ("no_such_folder/", False),
    ],
)
def test_places_are_told_from_others(name: str, exists: bool) -> None:
    assert is_place(name) == exists


def test_names_and_places_in_text_exist() -> None:
    wrong: list[tuple[str, str]] = []
    for file in [*source_files(), *DOCUMENTS]:
        shown = str(file.relative_to(PACKAGE if PACKAGE in file.parents else ROOT))
        for text in texts(file):
            names = (name for name in MODULE.findall(text) if name not in GROUPS)
            wrong += [(shown, name) for name in names if not is_name(name)]
            wrong += [(shown, name) for name in PLACE.findall(text) if not is_place(name)]
    assert wrong == []

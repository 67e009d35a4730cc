"""Tests that the verifier imports none of the code whose plans it checks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rammer_mlir.scheduling.verifier

FOLDER = Path(rammer_mlir.scheduling.verifier.__file__).parent

SHARED = {"errors", "scheduling.graph", "scheduling.program"}
"""Modules that the verifier may import: errors, the task graph, and the plan."""


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_verifier_imports_only_graph_and_plan(file: Path) -> None:
    modules = {
        node.module.removeprefix("rammer_mlir.")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rammer_mlir.")
        if node.module is not None
    }
    own = {module for module in modules if module.startswith("scheduling.verifier.")}
    assert modules - own <= SHARED

"""Tests of the order of layers: imports go downwards only, read from the source with ``ast``."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rammer_mlir"

LAYERS = (
    {"errors"},
    {"bindings"},
    {"support", "checker", "options"},
    {"dialects", "scheduling", "programs", "evaluators"},
    {"engines"},
    {"passes", "timeline"},
    {"explanation"},
    {"lowering", "frontends"},
    {"runtime"},
    {"emulation", "open_models"},
    {"hosted_models"},
    {"codegens"},
    {"compiler"},
    {"embedding", "extend"},
    {"rammer_mlir"},
    {"backend", "cli", "jax", "pytorch"},
    {"benchmarks", "__main__"},
)
"""The units of the package from the bottom up: its modules and subpackages, and the package itself.

A unit imports from lower layers only.
"""

CONCEPTS = (
    {"ir", "instrumentation"},
    {"weights", "tiling", "program"},
    {"contractions", "design", "fusion", "legalization"},
    {"channels", "memory", "regions"},
    {"winograd", "merging", "quantization"},
)
"""The folders of the passes from the bottom up; the passes themselves are above all of them."""

BELOW_LOWERING = (
    {"ir_walk"},
    {"llvm"},
    {"kernels", "program", "external"},
    {"cpu", "gpu"},
    {"nvvm", "rocdl", "from_gpu", "profiling"},
    {"targets"},
    {"rtask_lower_to_gpu"},
    {"registry"},
)
"""The units of the lowering from the bottom up; units that both targets use are below both."""

BELOW_CODEGENS = (
    {"inexpressible", "packages"},
    {"primitives"},
    {"table_code"},
    {"graph", "host", "iree", "onednn"},
)
"""The units of the code generators from the bottom up; no integration uses another one."""

RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}


def source_files() -> list[Path]:
    """Return every source file of the package, including folders that link to the top level."""
    entries = [path for path in PACKAGE.iterdir() if path.suffix == ".py"]
    for folder in (path for path in PACKAGE.iterdir() if path.is_dir()):
        entries.extend(folder.rglob("*.py"))
    return sorted(entries)


def unit_of(file: Path) -> str:
    """Return the name of the top-level module or subpackage that has a file of the package."""
    first = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "rammer_mlir" if first == "__init__" else first


def imported_modules(file: Path, *, only_at_load: bool = False) -> Iterator[str]:
    """Yield the dotted names that a file imports, at load or later.

    With ``only_at_load``, imports in functions and in ``if`` statements are left out.
    """
    pending: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if only_at_load and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If):
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_units(file: Path) -> set[str]:
    """Return the top-level modules and subpackages that a file of the package imports from."""
    found: set[str] = set()
    for name in imported_modules(file):
        top, _, rest = name.partition(".")
        if top == "rammer_mlir":
            first = rest.partition(".")[0]
            # Else a name that the package itself defines.
            found.add(first if first in RANK else "rammer_mlir")
    return found - {unit_of(file)}


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_downwards(file: Path) -> None:
    unit = unit_of(file)
    assert unit in RANK, f"give '{unit}' a layer"
    upwards = {other for other in imported_units(file) if RANK[other] >= RANK[unit]}
    assert upwards == set()


def test_concepts_of_passes_import_downwards() -> None:
    """Each folder of the passes imports only folders of lower layers.

    So a reader of one concept never needs the concepts above it.
    """
    ranks = {concept: rank for rank, layer in enumerate(CONCEPTS) for concept in layer}
    root = PACKAGE / "passes"
    assert {path.name for path in root.iterdir() if (path / "__init__.py").exists()} == set(ranks)
    for concept, rank in ranks.items():
        for file in (root / concept).rglob("*.py"):
            parts = [name.split(".") for name in imported_modules(file)]
            found = {p[2] for p in parts if p[:2] == ["rammer_mlir", "passes"]} - {concept, "base"}
            assert all(other in ranks and ranks[other] < rank for other in found), (file, found)


@pytest.mark.parametrize(
    ("unit", "layers"), [("lowering", BELOW_LOWERING), ("codegens", BELOW_CODEGENS)]
)
def test_rooms_import_downwards(unit: str, layers: Sequence[set[str]]) -> None:
    """In the lowering and the code generators, files and folders import from lower layers only.

    So neither target depends on the other one, and no integration on another integration.
    ``unit`` is "lowering" or "codegens", ``layers`` are its layers from the bottom up.
    """
    ranks = {room: rank for rank, layer in enumerate(layers) for room in layer}
    root = PACKAGE / unit
    entries = {p.stem for p in root.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert entries == set(ranks) | {"__init__"}
    for file in sorted(root.rglob("*.py")):
        room = file.relative_to(root).parts[0].removesuffix(".py")
        parts = [name.split(".") for name in imported_modules(file)]
        found = {p[2] for p in parts if p[:2] == ["rammer_mlir", unit] and p[2] in ranks} - {room}
        assert all(ranks[other] < ranks[room] for other in found), (file, found)


def test_the_readable_form_needs_only_text() -> None:
    """The assembly of the readable form imports only errors and bindings.

    It rewrites text, so it does not need the dialect's operations and verifiers.
    """
    room = "rammer_mlir.dialects.rtask.assembly"
    for file in (PACKAGE / "dialects" / "rtask" / "assembly").glob("*.py"):
        found = {name for name in imported_modules(file) if name.startswith("rammer_mlir.")}
        allowed = (f"{room}.", "rammer_mlir.errors.", "rammer_mlir.bindings.")
        assert all(name.startswith(allowed) for name in found), (file, found)


def test_every_layer_exists() -> None:
    assert {unit_of(file) for file in source_files()} == set(RANK)


@pytest.mark.parametrize(
    "unit", ["scheduling", "timeline", "runtime", "programs", "checker", "open_models"]
)
def test_algorithms_and_runtime_need_numpy_alone(unit: str) -> None:
    """Scheduling, timelines, artifacts and the runtime import only NumPy at load.

    So the algorithms do not depend on MLIR, and a deployed model needs no compiler.
    """
    allowed = {"numpy", "rammer_mlir"} | set(sys.stdlib_module_names)
    for file in (PACKAGE / unit).rglob("*.py"):
        found = {name.partition(".")[0] for name in imported_modules(file, only_at_load=True)}
        assert found - allowed == set(), file


def test_the_checker_imports_nothing_that_it_checks() -> None:
    """The checker of artifacts imports only ``errors`` from the other modules of the package."""
    for file in (PACKAGE / "checker").rglob("*.py"):
        assert imported_units(file) <= {"errors"}, file


def test_only_two_places_name_the_bindings() -> None:
    """No file imports MLIR directly, and only the bindings and the front ends name torch-mlir.

    All other code uses ``rammer_mlir.bindings``; the front ends load torch-mlir's ONNX importer.
    """
    for file in source_files():
        names = {name.partition(".")[0] for name in imported_modules(file)}
        assert not names & {"mlir", "torch_mlir"}, file
    naming = {
        unit_of(file)
        for file in source_files()
        if any(
            isinstance(node, ast.Constant) and str(node.value).startswith("torch_mlir")
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        )
    }
    assert naming <= {"bindings", "frontends"}


def test_runtime_loads_without_a_compiler() -> None:
    """Importing the package and all of the runtime loads neither MLIR, LLVM nor ONNX."""
    command = (
        "import importlib, pkgutil, sys\n"
        "import rammer_mlir\n"
        "for room in ('programs', 'runtime', 'open_models', 'emulation.device'):\n"
        "    package = importlib.import_module(f'rammer_mlir.{room}')\n"
        "    for found in pkgutil.walk_packages(package.__path__, f'{package.__name__}.'):\n"
        "        importlib.import_module(found.name)\n"
        "heavy = {'mlir', 'torch_mlir', 'llvmlite', 'onnx', 'onnxscript', 'onnxruntime'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")

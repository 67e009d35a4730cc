"""Tests that each back end declares its stages; no other code compares a target's name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.compiler.backends import registry
from rammer_mlir.compiler.backends.backend import Backend
from rammer_mlir.compiler.backends.cpu import CpuBackend
from rammer_mlir.compiler.backends.registry import (
    backend_class,
    backend_names,
    described_targets,
    find_backend,
    register_target,
)
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.stage import Stage, Work
from rammer_mlir.compiler.stage_names import KNOWN_STAGES, PORTABLE_STAGES
from rammer_mlir.errors import OptionError, TargetError
from tests.cli.tools import save_layer

PACKAGE = Path(rammer_mlir.__file__).parent
TARGETS = ("cpu", "nvvm:sm_80", "rocdl:gfx942", "emulator:nvvm:sm_80")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a model of two layers."""
    return save_layer(tmp_path_factory.mktemp("models") / "layer.onnx").read_bytes()


def test_the_four_of_them() -> None:
    assert backend_names()[:4] == ("cpu", "nvvm", "rocdl", "emulator")
    for name in backend_names():
        backend = backend_class(name)
        assert issubclass(backend, Backend) and backend.name == name
        assert backend.spelling.startswith(name)
        assert all(words.endswith(".") for words in backend.lacks)


@pytest.mark.parametrize("target", TARGETS)
def test_stages_go_all_the_way(target: str) -> None:
    """A target's stage names are known and distinct; only stages after `program` have a step."""
    options = check_options(target, num_veus=2)
    stages = options.backend.stages(options)
    names = [stage.name for stage in stages]
    assert names[:4] == list(PORTABLE_STAGES[1:]) and len(set(names)) == len(names)
    assert set(names) <= set(KNOWN_STAGES)
    assert all((stage.step is None) == (stage.name in PORTABLE_STAGES) for stage in stages)
    assert options.backend.emits(options) == ("linalg", *names)


@pytest.mark.parametrize("target", TARGETS)
def test_stages_one_by_one_give_what_all_at_once_do(target: str, model: bytes) -> None:
    """The last stage has the same bytes whether or not all earlier stages are emitted first."""
    options = check_options(target, num_veus=2)
    through = Compilation.of_model(model, options)
    printed = [through.emit(name) for name in options.backend.emits(options)]
    assert all(printed)
    last = options.backend.emits(options)[-1]
    at_once = Compilation.of_model(model, options).emit(last)
    assert at_once == printed[-1] == through.code().binary


def test_the_emulator_by_name(model: bytes) -> None:
    options = check_options("emulator:rocdl:gfx90a", num_veus=2)
    plain = rammer_mlir.compile(model, target="rocdl:gfx90a", num_veus=2, emulate=True)
    named = Compilation.of_model(model, options).executable()
    feeds = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)}
    for name, array in plain.run(feeds).items():
        np.testing.assert_array_equal(array, named.run(feeds)[name])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tpu", "unknown target 'tpu': expected one of cpu[:CPU], nvvm["),
        ("cpu:fast", "unknown target 'cpu:fast': expected cpu for this machine"),
        ("emulator:cpu", "target 'cpu': expected a GPU to emulate"),
        ("emulator:tpu", "unknown target 'tpu': expected one of cpu"),
    ],
)
def test_targets_that_do_not_exist(target: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        find_backend(target)
    assert str(caught.value).startswith(message)


def compared_texts(file: Path) -> Iterator[str]:
    """Yield the string literals in a file's comparisons and ``match`` patterns."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value
        if isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def test_only_back_ends_ask_for_the_name_of_a_target() -> None:
    names = set(backend_names())
    for folder in [PACKAGE, *(path for path in PACKAGE.iterdir() if path.is_dir())]:
        for file in folder.glob("*.py") if folder == PACKAGE else folder.rglob("*.py"):
            if file.parent == PACKAGE / "compiler" / "backends":
                continue
            found = names & {text.partition(":")[0] for text in compared_texts(file)}
            assert found == set(), file


def failing(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return the stages with a failing step in the stage `tasks`."""

    def fail(work: Work) -> None:
        raise ValueError(f"{work.reached[-1]}\nis the last")

    return tuple(replace(s, step=fail) if s.name == "tasks" else s for s in stages)


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "none": (lambda _: None, "expected a tuple of stages, found None"),
    "no stages": (lambda _: (), r"expected a tuple of stages, found \(\)"),
    "texts": (lambda _: ("tasks",), "expected stages, found 'tasks'"),
    "twice": (lambda s: s + s[:1], "stages of different names, found 'operators' twice"),
    "a number": (lambda s: (replace(s[0], step=3),), "expected a function as its step, found 3"),
    "an error": (lambda s: s[99], "failed with IndexError: .*; mend it"),
    "an exit": (lambda _: sys.exit(0), "failed with SystemExit: 0; mend it"),
    "a step": (failing, "failed with ValueError: operators is the last; mend it"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_target_of_a_user_that_fails_is_named(name: str, model: bytes) -> None:
    change, message = CHANGES[name]

    @dataclass(frozen=True)
    class Mine(CpuBackend):
        """The CPU's back end with changed stages."""

        name: ClassVar[str] = "mine"

        def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
            return change(super().stages(options))

    register_target(Mine)
    try:
        assert ("mine[:CPU]", "The CPU's back end with changed stages.") in [
            (name, text.partition(" Code")[0]) for name, text in described_targets()
        ]
        with pytest.raises(TargetError, match=f"target 'mine'.*{message}") as caught:
            rammer_mlir.compile(model, target="mine", cache=False)
        assert "\n" not in str(caught.value)
    finally:
        registry.TARGETS.unregister("mine")

"""Tests that a model with other weights and names takes its program from the compile cache.

A model with any other difference is compiled again.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.models import build
from rammer_mlir.compiler.caching import keys, programs
from rammer_mlir.compiler.caching.cache_file import CacheFile
from rammer_mlir.compiler.caching.programs import PROGRAM
from rammer_mlir.frontends.onnx.canonical import canonical_graph
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.prepare import prepare
from rammer_mlir.runtime.executable import Executable
from tests.compiler.cached_models import DIFFERENT, EQUAL, check, network, renamed, retrained

Array = np.ndarray[Any, np.dtype[Any]]

MODELS = ("squeezenet", "lstm_tc", "transformer_encoder")
"""A CNN, a recurrent model and a Transformer."""


def compiled(model: onnx.ModelProto, **options: Any) -> Executable:
    options = {"num_veus": 2, **options}
    found = rammer_mlir.compile(model, **options)
    assert isinstance(found, Executable)
    return found


def is_replayed(executable: Executable) -> bool:
    return executable.stats.get("cache") == PROGRAM


@pytest.mark.parametrize("change", EQUAL)
def test_what_makes_no_difference_hits(folder: Path, change: str) -> None:
    assert not is_replayed(compiled(network()))
    model = EQUAL[change]()
    found = compiled(model)
    assert is_replayed(found)
    check(found, model, 1)
    check(found, model, 2)


@pytest.mark.parametrize("change", DIFFERENT)
def test_any_real_difference_misses(folder: Path, change: str) -> None:
    compiled(network())
    found = compiled(DIFFERENT[change])
    assert not is_replayed(found)
    check(found, DIFFERENT[change], 1)


def test_a_miss_says_what_differs(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log of a miss names the section of the graph that differs from the nearest entry."""
    compiled(network())
    with caplog.at_level(logging.INFO, "rammer_mlir"):
        compiled(DIFFERENT["attribute"])
    (line,) = (m for m in caplog.messages if m.startswith("cache: program: miss, "))
    assert line.endswith("; the nearest entry differs in graph operations")


@pytest.mark.parametrize(
    "options", [{"policy": "sequential"}, {"num_veus": 1}, {"costs": "a100"}, {"boundary": "cost"}]
)
def test_other_options_miss(folder: Path, options: dict[str, Any]) -> None:
    compiled(network())
    assert not is_replayed(compiled(retrained(network(), 1), **options))


@pytest.mark.parametrize("part", ["compiler_digest", "cpu_features"])
def test_another_compiler_or_processor_misses(
    folder: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(network())
    changed = "another" if part == "compiler_digest" else ("sse2",)
    monkeypatch.setattr(keys, part, lambda: changed)
    assert not is_replayed(compiled(retrained(network(), 1)))


def test_a_repeated_value_is_not_a_weight(folder: Path) -> None:
    """A weight whose elements are all equal counts by its value, so a new value misses."""
    model = network()
    compiled(model)
    tensor = next(t for t in model.graph.initializer if t.name == "b")
    tensor.CopyFrom(numpy_helper.from_array(np.ones((16, 24), np.float32), "b"))
    found = compiled(model)
    assert not is_replayed(found)
    check(found, model, 1)


def test_a_collision_of_hashes_compiles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models with equal hashes are told apart by their canonical forms, and compiled separately."""

    def hash_of(_: bytes) -> str:
        return "sha256:equal"

    monkeypatch.setattr(programs, "hash_of", hash_of)
    compiled(network())
    for change, model in DIFFERENT.items():
        found = compiled(model)
        assert not is_replayed(found), change
        check(found, model, 1)


def test_a_damaged_entry_compiles(folder: Path) -> None:
    compiled(network())
    file = CacheFile(folder, 1 << 30)
    (kept,) = (each for each in file.kept() if each.level == PROGRAM)
    entry = file.find(PROGRAM, kept.key)
    assert entry is not None
    file.keep(PROGRAM, kept.key, entry.content[:-30], identity=entry.identity)
    model = retrained(network(), 1)
    assert not is_replayed(compiled(model))
    assert is_replayed(compiled(retrained(network(), 2)))


def test_a_replayed_program_equals_a_fresh_one(folder: Path) -> None:
    """A program from the cache equals one that is compiled without the cache.

    It has the model's own weights and names.
    """
    compiled(network())
    model = renamed(retrained(network(), 1))
    found, fresh = compiled(model), compiled(model, cache=False)
    assert is_replayed(found) and not is_replayed(fresh)
    assert found.signature == fresh.signature
    assert found.image.program == fresh.image.program
    assert found.image.proof.values == fresh.image.proof.values
    assert found.image.arena_bytes == fresh.image.arena_bytes
    digests = [
        [hashlib.sha256(part.data).digest() for part in made.image.constants.parts]
        for made in (found, fresh)
    ]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", MODELS)
def test_results_behind_a_hit_equal_onnx_runtime(folder: Path, name: str) -> None:
    model = build(name, scale="small")
    compiled(model)
    other = retrained(model, 4)
    found = compiled(other)
    assert is_replayed(found)
    check(found, other, 5)


@pytest.mark.parametrize("name", MODELS)
def test_canonical_forms_of_networks(name: str) -> None:
    """Canonical forms depend neither on names nor on weights, and differ between networks."""
    model = build(name, scale="small")
    forms = [
        canonical_graph(prepare(load(each))).form
        for each in (model, retrained(model, 1), renamed(model))
    ]
    assert forms[0] == forms[1] == forms[2]
    other = build(MODELS[MODELS.index(name) - 1], scale="small")
    assert canonical_graph(prepare(load(other))).form != forms[0]


def test_foreign_code_is_not_kept_as_a_program(folder: Path) -> None:
    compiled(network(), policy="wavefront", offload="onnxruntime", offload_choice="always")
    assert not [each for each in CacheFile(folder, 0).kept() if each.level == PROGRAM]

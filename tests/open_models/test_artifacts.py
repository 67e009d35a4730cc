"""Tests of artifacts with several programs of one model: they share weights and are proven.

Damaged files are refused.
"""

from __future__ import annotations

import gc
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.errors import ArtifactError, InputError, OptionError, ScheduleError
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from tests.checker.files import write_members
from tests.open_models.models import check_run, compiled, layer, weight

MODEL = layer()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an artifact with two programs of one model."""
    path = tmp_path_factory.mktemp("several") / "model.rammer"
    with compiled(MODEL, num_veus=2) as made:
        with pytest.raises(OptionError, match="save: expected at least one specialization"):
            made.save(path)
        made.prepare(batch=[1, 4], length=3)
        made.save(path)
    return path


def loaded(path: Path) -> OpenModel:
    found = rammer_mlir.load(path)
    assert isinstance(found, OpenModel)
    return found


def addresses(model: OpenModel, batch: int) -> dict[int, int]:
    """Return the memory address of each weight in the model's program for batch size ``batch``.

    The keys are the weights' sizes in bytes, which differ.
    """
    with model.specialization({"x": weight(0, batch, 3, 8)}) as program:
        assert isinstance(program, CompiledModel)
        parts = program.image.constants.parts
        return {part.nbytes: part.ctypes.data for part in parts}


def test_equal_weights_are_in_memory_once() -> None:
    """Weights that two specializations pack into equal arrays are in memory once.

    Weights that the specializations packed in different layouts would be in memory twice.
    """
    with compiled(MODEL, num_veus=1) as made:
        made.prepare(batch=[1, 2], length=3)
        found = [addresses(made, batch) for batch in (1, 2)]
        assert len(found[0]) > 0 and found[0] == found[1]
        for batch in (1, 2):
            check_run(MODEL, made, {"x": weight(0, batch, 3, 8)})


def test_weights_go_with_the_last_program_that_uses_them() -> None:
    with compiled(MODEL, num_veus=1, specializations=1) as made:
        made.prepare(batch=1, length=3)
        before = addresses(made, 1)
        made.prepare(batch=2, length=3)
        gc.collect()
        check_run(MODEL, made, {"x": weight(0, 2, 3, 8)})
        assert addresses(made, 2).keys() == before.keys()


def test_saved_and_loaded(saved: Path, tmp_path: Path) -> None:
    with loaded(saved) as model:
        assert model.specializations == [{"batch": 1, "length": 3}, {"batch": 4, "length": 3}]
        assert model.signature.symbols == ("batch", "length")
        assert addresses(model, 1) == addresses(model, 4)
        for batch in (1, 4):
            check_run(MODEL, model, {"x": weight(0, batch, 3, 8)})
        again = tmp_path / "again.rammer"
        model.save(again)
    assert again.read_bytes() == saved.read_bytes()


def test_weights_are_stored_once(saved: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.rammer"
    made = rammer_mlir.compile(MODEL, dims={"batch": 4, "length": 3}, cache=False, num_veus=2)
    assert isinstance(made, Executable)
    made.save(one)
    made.close()
    sizes = [zipfile.ZipFile(path).getinfo("constants.bin").file_size for path in (one, saved)]
    assert sizes[0] == sizes[1] > 0


def test_other_bindings_are_refused(saved: Path) -> None:
    with loaded(saved) as model:
        with pytest.raises(InputError) as caught:
            model.run({"x": weight(0, 2, 3, 8)})
        message = str(caught.value)
        assert message.startswith("for batch=2, length=3: ")
        assert "batch=1, length=3; batch=4, length=3" in message and "--dim" in message


def test_a_file_that_was_changed(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "changed.rammer"
    content = saved.read_bytes()
    path.write_bytes(content.replace(b'"batch"', b'"BATCH"'))
    with pytest.raises(ArtifactError):
        rammer_mlir.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ArtifactError):
        rammer_mlir.load(path)


def test_all_programs_are_proven(saved: Path) -> None:
    proven = verify(saved)
    assert proven.programs == 2
    assert "programs 2, vEUs 2, rTasks " in str(proven)


def test_a_single_program_has_the_format_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "one.rammer"
    with rammer_mlir.compile(layer((1, 2, 8)), cache=False) as made:
        made.save(path)
    with zipfile.ZipFile(path) as file:
        assert json.loads(file.read("manifest.json"))["version"] == 5


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def same_shapes(manifest: dict[str, Any]) -> None:
    entries = manifest["specializations"]
    entries[1]["inputs"] = entries[0]["inputs"]


def other_shape(manifest: dict[str, Any]) -> None:
    manifest["specializations"][0]["inputs"][0]["shape"] = [1, 3, 9]


def shifted(manifest: dict[str, Any]) -> None:
    manifest["specializations"][0]["constants"][0][0] += 32


def outside(manifest: dict[str, Any]) -> None:
    manifest["specializations"][1]["constants"][0][0] += 1 << 30


def torn(manifest: dict[str, Any]) -> None:
    start, size = manifest["specializations"][0]["constants"][0]
    rest = manifest["specializations"][0]["constants"][1:]
    parts = [[start, 64], [start + 64, size - 64], *rest]
    manifest["specializations"][0]["constants"] = parts


def no_numbers(manifest: dict[str, Any]) -> None:
    manifest["specializations"][0]["constants"][0] = [0.5, 64]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (same_shapes, 'program 1: rule 5 (memory): "x" of '),
        (other_shape, 'rammer\': rule 5 (memory): "x" of '),
        (shifted, "rule 5 (memory): expected piece 0 of constants"),
        (outside, "program 1: rule 5 (memory): expected piece 0 of constants"),
        (torn, "expected a place in a buffer of its kind"),
        (no_numbers, "pieces of constants: expected integers"),
    ],
)
def test_manifests_that_the_proof_refuses(
    change: Callable[[dict[str, Any]], None], message: str, saved: Path, tmp_path: Path
) -> None:
    content = members(saved)
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    content["manifest.json"] = json.dumps(manifest).encode()
    path = write_members(tmp_path / "changed.rammer", content)
    with pytest.raises((ArtifactError, ScheduleError)) as caught:
        verify(path)
    assert message in str(caught.value) and str(path) in str(caught.value)
    with pytest.raises(ArtifactError):  # the seal
        rammer_mlir.load(path)


def test_a_wrong_table_of_a_later_program(saved: Path, tmp_path: Path) -> None:
    content = members(saved)
    words = np.frombuffer(content["1/records.bin"], "<i4").copy()
    words[2] += 1
    content["1/records.bin"] = words.tobytes()
    with pytest.raises(ScheduleError, match="program 1: rule 6"):
        verify(write_members(tmp_path / "changed.rammer", content))


def test_programs_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A binding has one entry in the compile cache, whether arrays, sizes or shapes define it."""
    monkeypatch.setenv("RAMMER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("rammer_mlir.compiler.cache.WORTH_SECONDS", 0.0)
    x = weight(0, 2, 3, 8)
    with compiled(MODEL, cache=True) as made:
        made.run({"x": x})
        assert "cache" not in made.stats["seconds"]
    with compiled(MODEL, cache=True) as made:
        check_run(MODEL, made, {"x": x})
        assert list(made.stats["seconds"]) == ["cache"]
    for given in ({"dims": {"batch": 2, "length": 3}}, {"shapes": {"x": (2, 3, 8)}}):
        fixed = rammer_mlir.compile(MODEL, **given)  # type: ignore[call-overload]
        assert list(fixed.stats["seconds"]) == ["cache"]
        fixed.close()
    assert len(list(tmp_path.iterdir())) == 1

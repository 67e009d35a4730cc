"""Artifacts that were changed since they were written: every change is found, or is harmless."""

from __future__ import annotations

import json
import platform
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.artifacts import (
    RING,
    SMALL,
    contents,
    loads_and_runs,
    refusal,
    rewritten,
    write_members,
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact of a program in the table form with a weight."""
    path = tmp_path_factory.mktemp("artifacts") / "ring.rammer"
    with RING.build() as executable:
        executable.save(path)
    return path


def unchanged(_: dict[str, Any]) -> None:
    """Leave the manifest as it is."""


def test_a_rewritten_artifact_still_loads(saved: Path, tmp_path: Path) -> None:
    """The tests below change one thing at a time of a file that is good otherwise."""
    assert loads_and_runs(rewritten(saved, tmp_path / "same.rammer", unchanged))


def test_another_version(saved: Path, tmp_path: Path) -> None:
    """The versions found and expected are named."""
    path = rewritten(saved, tmp_path / "new.rammer", lambda m: m.update(version=99))
    assert "has format version 99: expected 5; compile the model again" in refusal(path)


def test_another_machine(saved: Path, tmp_path: Path) -> None:
    """Code for another processor family is not run."""
    path = rewritten(saved, tmp_path / "other.rammer", lambda m: m.update(machine="riscv64"))
    message = refusal(path)
    assert "was compiled for riscv64, and this machine is " + platform.machine() in message


def test_a_processor_that_lacks_an_instruction_set(saved: Path, tmp_path: Path) -> None:
    """Nor code that uses instructions which this one lacks."""
    path = rewritten(saved, tmp_path / "wide.rammer", lambda m: m["features"].append("avx4096"))
    assert "needs a processor with avx4096, which this one lacks" in refusal(path)


MEMBERS = ["code", "records", "starts", "constants", "program", "proof", "boxes"]


@pytest.mark.parametrize("member", MEMBERS)
def test_missing_members(member: str, saved: Path, tmp_path: Path) -> None:
    """Every part is needed."""
    refusal(rewritten(saved, tmp_path / "part.rammer", unchanged, **{member: None}))


def test_code_that_is_no_library(saved: Path, tmp_path: Path) -> None:
    """The system's loader refuses it."""
    path = rewritten(saved, tmp_path / "code.rammer", unchanged, code=b"no code")
    assert "its code cannot be loaded" in refusal(path)


def test_code_of_another_library(saved: Path, tmp_path: Path) -> None:
    """A library without our functions is not called."""
    library = next(Path(sys.modules["_ctypes"].__file__ or "").parent.glob("_ctypes*.so"))
    path = rewritten(saved, tmp_path / "code.rammer", unchanged, code=library.read_bytes())
    assert "its code lacks 'rammer_start'" in refusal(path)


@pytest.mark.parametrize("more", [b"\0", b"PK\5\6", b"x" * 70_000])
def test_bytes_in_front_and_behind(more: bytes, saved: Path, tmp_path: Path) -> None:
    """A ZIP archive may have both; an artifact is read whole, as it was written."""
    path, whole = tmp_path / "more.rammer", saved.read_bytes()
    for content in (whole + more, more + whole):
        path.write_bytes(content)
        refusal(path)
    path.write_bytes(whole + b"\0")
    assert "was changed since it was compiled" in refusal(path)


def test_a_comment(saved: Path, tmp_path: Path) -> None:
    """Nor has it one of those that ZIP archives may end with."""
    path = tmp_path / "comment.rammer"
    path.write_bytes(saved.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"mine"
    assert "was changed since it was compiled" in refusal(path)


Edit = Callable[[Any, Any], object]
"""Changes an entry of a list or a dictionary, given both."""


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every list and dictionary in a JSON value with each of its entries' places."""
    places: Iterable[Any] = ()
    if isinstance(value, dict | list):
        places = value if isinstance(value, dict) else range(len(value))
    for place in list(places):
        yield value, place
        yield from entries(value[place])


def delete(value: Any, place: Any) -> None:
    """Leave an entry out."""
    del value[place]


def set_to(new: Any) -> Edit:
    """Write something else."""
    return lambda value, place: value.__setitem__(place, new)


def rename(value: Any, place: Any) -> None:
    """Give an entry another name, or put it at another place."""
    if isinstance(value, dict):
        value[f"{place}_"] = value.pop(place)
    else:
        value.append(value.pop(place))
        value.append(0)


def increase(value: Any, place: Any) -> None:
    """Write a number that is one larger, and a longer text or list."""
    old = value[place]
    if isinstance(old, dict):
        old["further"] = 0
    else:
        value[place] = old + {str: "_", list: [0]}.get(type(old), 1)


EDITS: dict[str, Edit] = {
    "delete": delete, "rename": rename, "increase": increase, "null": set_to(None),
    "text": set_to("x_"), "list": set_to([[]]), "dictionary": set_to({"a": 1}),
    "negative": set_to(-1), "huge": set_to(1 << 70), "fraction": set_to(0.5),
    "not a number": set_to(float("nan")), "false": set_to(False),
}  # fmt: skip


@pytest.mark.parametrize("kind", EDITS)
def test_edited_manifests(kind: str, saved: Path, tmp_path: Path) -> None:
    """Whatever is changed anywhere in the manifest is found, whatever it would have led to."""
    members = contents(saved)
    whole = members["manifest.json"]
    number = sum(1 for _ in entries(json.loads(whole)))
    assert number > 30  # the more features the processor has, the more
    for position in range(number):
        manifest = json.loads(whole)
        value, place = next(islice(entries(manifest), position, None))
        if isinstance(value, dict | list):
            EDITS[kind](value, place)
        edited = json.dumps(manifest).encode()
        assert edited != json.dumps(json.loads(whole)).encode()
        refusal(write_members(tmp_path / "edited.rammer", members | {"manifest.json": edited}))


def test_members_of_another_model(saved: Path, tmp_path: Path) -> None:
    """Each is whole, and none is taken for this model's."""
    with SMALL.build() as other:
        other.save(tmp_path / "other.rammer")
    members, others = contents(saved), contents(tmp_path / "other.rammer")
    for name in members:
        path = write_members(tmp_path / "mixed.rammer", members | {name: others[name]})
        if members[name] != others[name]:
            assert "was changed since it was compiled" in refusal(path)

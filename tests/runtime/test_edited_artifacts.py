"""Tests that every edit of a written artifact is detected, or is harmless."""

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
    """The path of the artifact of a program with a weight, which is compiled as a dispatch loop."""
    path = tmp_path_factory.mktemp("artifacts") / "ring.rammer"
    with RING.build() as executable:
        executable.save(path)
    return path


def unchanged(_: dict[str, Any]) -> None:
    """Leave the manifest unchanged, as an edit for ``rewritten``."""


def test_a_rewritten_artifact_still_loads(saved: Path, tmp_path: Path) -> None:
    """An artifact that is rewritten without an edit loads.

    So the other tests' files are refused for their edits, not for being rewritten.
    """
    assert loads_and_runs(rewritten(saved, tmp_path / "same.rammer", unchanged))


def test_another_version(saved: Path, tmp_path: Path) -> None:
    """An artifact of another format version is refused, with the found and the expected version."""
    path = rewritten(saved, tmp_path / "new.rammer", lambda m: m.update(version=99))
    assert "has format version 99: expected 5; compile the model again" in refusal(path)


def test_another_machine(saved: Path, tmp_path: Path) -> None:
    """An artifact for another processor architecture is refused."""
    path = rewritten(saved, tmp_path / "other.rammer", lambda m: m.update(machine="riscv64"))
    message = refusal(path)
    assert "was compiled for riscv64, and this machine is " + platform.machine() in message


def test_a_processor_that_lacks_an_instruction_set(saved: Path, tmp_path: Path) -> None:
    """An artifact that needs an instruction set which this processor lacks is refused."""
    path = rewritten(saved, tmp_path / "wide.rammer", lambda m: m["features"].append("avx4096"))
    assert "needs a processor with avx4096, which this one lacks" in refusal(path)


MEMBERS = ["code", "records", "starts", "constants", "program", "proof", "boxes"]


@pytest.mark.parametrize("member", MEMBERS)
def test_missing_members(member: str, saved: Path, tmp_path: Path) -> None:
    """An artifact without one of its members is refused."""
    refusal(rewritten(saved, tmp_path / "part.rammer", unchanged, **{member: None}))


def test_code_that_is_no_library(saved: Path, tmp_path: Path) -> None:
    """An artifact whose code is no shared library is refused."""
    path = rewritten(saved, tmp_path / "code.rammer", unchanged, code=b"no code")
    assert "its code cannot be loaded" in refusal(path)


def test_code_of_another_library(saved: Path, tmp_path: Path) -> None:
    """An artifact whose code is a shared library without the program's functions is refused."""
    library = next(Path(sys.modules["_ctypes"].__file__ or "").parent.glob("_ctypes*.so"))
    path = rewritten(saved, tmp_path / "code.rammer", unchanged, code=library.read_bytes())
    assert "its code lacks 'rammer_start_threads'" in refusal(path)


@pytest.mark.parametrize("more", [b"\0", b"PK\5\6", b"x" * 70_000])
def test_bytes_in_front_and_behind(more: bytes, saved: Path, tmp_path: Path) -> None:
    """An artifact with bytes added before or after it is refused, although ZIP allows both."""
    path, whole = tmp_path / "more.rammer", saved.read_bytes()
    for content in (whole + more, more + whole):
        path.write_bytes(content)
        refusal(path)
    path.write_bytes(whole + b"\0")
    assert "was changed since it was compiled" in refusal(path)


def test_a_comment(saved: Path, tmp_path: Path) -> None:
    """An artifact with an added ZIP comment is refused."""
    path = tmp_path / "comment.rammer"
    path.write_bytes(saved.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"mine"
    assert "was changed since it was compiled" in refusal(path)


Edit = Callable[[Any, Any], object]
"""A function that changes an entry, given the list or dictionary and the index or key."""


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every entry of nested lists and dictionaries, outer entries first.

    An entry is given by the list or dictionary that has it, and its index or key there.
    """
    places: Iterable[Any] = ()
    if isinstance(value, dict | list):
        places = value if isinstance(value, dict) else range(len(value))
    for place in list(places):
        yield value, place
        yield from entries(value[place])


def delete(value: Any, place: Any) -> None:
    """Delete the entry at key or index ``place`` of ``value``."""
    del value[place]


def set_to(new: Any) -> Edit:
    """Return an edit that replaces an entry by ``new``."""
    return lambda value, place: value.__setitem__(place, new)


def rename(value: Any, place: Any) -> None:
    """Rename an entry of a dictionary, or move an entry of a list to its end and add a 0."""
    if isinstance(value, dict):
        value[f"{place}_"] = value.pop(place)
    else:
        value.append(value.pop(place))
        value.append(0)


def increase(value: Any, place: Any) -> None:
    """Increase a number by 1, or make a text, list or dictionary longer by an element."""
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
    """Each edit of any entry of the manifest is detected."""
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
    """An artifact with a member of another valid artifact is refused."""
    with SMALL.build() as other:
        other.save(tmp_path / "other.rammer")
    members, others = contents(saved), contents(tmp_path / "other.rammer")
    for name in members:
        path = write_members(tmp_path / "mixed.rammer", members | {name: others[name]})
        if members[name] != others[name]:
            assert "was changed since it was compiled" in refusal(path)

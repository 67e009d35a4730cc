"""Tests that the cache of measured times finds its entries, also after damage to its file.

Several processes can write to it at once.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import warnings
from pathlib import Path

import pytest

from rammer_mlir.lowering.profiling.profiles import (
    ENVIRONMENT,
    ProfileStore,
    ProfileWarning,
    default_path,
)
from rammer_mlir.scheduling.graph import MeasuredSeconds

ONE, TWO = MeasuredSeconds(1e-6, 2e-6, 3e-6), MeasuredSeconds(4.25e-6, 5e-6, 6e-6)


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "folder" / "profiles.sqlite")


def test_what_is_added_is_found_by_anyone(store: ProfileStore) -> None:
    assert store.find(["a"]) == {}
    store.add({"a": ONE, "b": TWO})
    store.add({"a": TWO})
    assert ProfileStore(store.path).find(["a", "b", "c"]) == {"a": TWO, "b": TWO}


def test_more_keys_than_a_query_takes(store: ProfileStore) -> None:
    many = {f"key {n}": MeasuredSeconds(n + 1.0, n + 2.0, n + 3.0) for n in range(2500)}
    store.add(many)
    assert store.find(many) == many


def test_a_corrupt_file_is_begun_anew(store: ProfileStore) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(b"this is no database, " * 200)
    with pytest.warns(ProfileWarning, match="is not one .*begun anew") as caught:
        assert store.find(["a"]) == {}
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    store.add({"a": ONE})
    assert store.find(["a"]) == {"a": ONE}
    assert store.path.with_name("profiles.sqlite.corrupt").exists()


def test_a_truncated_file_does_not_stop_anything(store: ProfileStore) -> None:
    store.add({f"key {n}": ONE for n in range(1000)})
    store.path.write_bytes(store.path.read_bytes()[: store.path.stat().st_size // 2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        store.find([f"key {n}" for n in range(1000)])
        store.add({"a": ONE})
    assert all(isinstance(w.message, ProfileWarning) for w in caught)
    store.add({"a": ONE})
    assert store.find(["a"]) == {"a": ONE}


def test_a_file_of_another_layout_is_begun_anew(store: ProfileStore) -> None:
    store.path.parent.mkdir()
    with sqlite3.connect(store.path) as database:
        database.execute("CREATE TABLE profiles (key TEXT, seconds REAL)")
    with pytest.warns(ProfileWarning):
        assert store.find(["a"]) == {}


@pytest.mark.parametrize("value", ["'fast'", "-1.0", "0.0", "9e999", "NULL"])
def test_a_senseless_time_counts_as_unknown(store: ProfileStore, value: str) -> None:
    store.add({"a": ONE, "b": TWO})
    with sqlite3.connect(store.path) as database:
        database.execute("ALTER TABLE profiles RENAME TO old")
        database.execute("CREATE TABLE profiles AS SELECT * FROM old")
        database.execute(f"UPDATE profiles SET cold = {value} WHERE key = 'a'")
    assert store.find(["a", "b"]) == {"b": TWO}


def test_a_place_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = ProfileStore(tmp_path / "file" / "profiles.sqlite")
    with pytest.warns(ProfileWarning, match=f"cannot be written .*{ENVIRONMENT}") as caught:
        store.add({"a": ONE})
    assert len(caught) == 1
    folder = ProfileStore(tmp_path)
    with pytest.warns(ProfileWarning, match="cannot be used"):
        folder.add({"a": ONE})
    with pytest.warns(ProfileWarning, match="cannot be used"):
        assert folder.find(["a"]) == {}


def _write(path: Path, writer: int) -> None:
    for n in range(20):
        ProfileStore(path).add({f"{writer} {n}": MeasuredSeconds(writer + 1.0, n + 1.0, 9.0)})


def test_processes_write_at_once(store: ProfileStore) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(store.path, n)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    expected = {
        f"{w} {n}": MeasuredSeconds(w + 1.0, n + 1.0, 9.0) for w in range(4) for n in range(20)
    }
    assert store.find(expected) == expected


def test_the_users_own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "mine.sqlite"))
    assert default_path() == tmp_path / "mine.sqlite"
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "rammer-mlir" / "profiles.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_path() == Path.home() / ".cache" / "rammer-mlir" / "profiles.sqlite"

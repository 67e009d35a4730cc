"""Tests that a registry finds built-in objects, registered objects and entry points by name.

A broken package is named in the error, and does not affect other packages.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.support import plugins
from rammer_mlir.support.plugins import Registry, load_plugin, refuse
from tests.extend.fake_packages import install


def check(_: str, value: object) -> int:
    if not isinstance(value, int):
        refuse("a number", value)
    return value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Return a folder whose packages are installed as long as the test runs."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._all_offers.cache_clear()  # pyright: ignore[reportPrivateUsage]
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    plugins._all_offers.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def numbers() -> Registry[int]:
    """Return a registry of numbers."""
    return Registry("number", {"one": 1}, check, "numbers")


def test_an_entry_point_is_found_by_its_name(folder: Path, numbers: Registry[int]) -> None:
    install(folder, "more", {"numbers": {"two": "more:two", "three": "more:three"}}, "two = 2\n")
    assert numbers.names() == ("one", "three", "two")
    assert numbers.get("two") == 2
    assert not numbers.is_built_in("two")
    with pytest.raises(OptionError) as refused:
        numbers.get("three")
    assert str(refused.value) == (
        "number 'three' of package 'more', entry point 'more:three': expected it to load, found "
        "AttributeError: module 'more' has no attribute 'three'; mend or uninstall the package"
    )


BROKEN = {
    "import no_such_module_anywhere": "ModuleNotFoundError: No module named 'no_such_module_any",
    "import sys; sys.exit('away')": "SystemExit: away",
    "raise ValueError('two\\n lines')": "ValueError: two lines;",
    "two = 'text'": "expected a number, found text",
    "two = {}": "expected a number, found dict",
    "two = dict": "expected a number, found the class dict",
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_entry_point_breaks_no_other(
    folder: Path, numbers: Registry[int], code: str
) -> None:
    install(folder, "broken", {"numbers": {"two": "broken:two"}}, code)
    install(folder, "whole", {"numbers": {"three": "whole:three"}}, "three = 3\n")
    with pytest.raises(OptionError) as refused:
        numbers.get("two")
    message = str(refused.value)
    assert message.startswith("number 'two' of package 'broken', entry point 'broken:two': ")
    assert BROKEN[code] in message and "\n" not in message
    assert numbers.get("three") == 3
    found = {e.name: (e.origin, e.value, e.problem) for e in numbers.extensions()}
    assert found == {"two": ("broken", None, message), "three": ("whole", 3, "")}


def test_names_are_taken_once(folder: Path, numbers: Registry[int]) -> None:
    """A built-in name cannot be replaced; a name that two packages offer is refused."""
    code = "one = 11\ntwo = 22\n"
    install(folder, "first", {"numbers": {"one": "first:one", "two": "first:two"}}, code)
    install(folder, "second", {"numbers": {"two": "second:two"}}, code)
    assert numbers.get("one") == 1
    with pytest.raises(OptionError, match=r"'two': expected one package .* found first and second"):
        numbers.get("two")
    problems = {e.problem for e in numbers.extensions() if e.name == "one"}
    assert problems == {"number 'one' of package 'first': the name is taken; rename it"}


def test_metadata_that_cannot_be_read_is_left_out(folder: Path, numbers: Registry[int]) -> None:
    install(folder, "whole", {"numbers": {"two": "whole:two"}}, "two = 2\n")
    install(folder, "torn", {"numbers": {"three": "torn:three"}})
    folder.joinpath("torn-1.0.dist-info", "entry_points.txt").write_bytes(
        b"[rammer_mlir.numbers\xff"
    )
    assert numbers.names() == ("one", "two")


def test_known_names_need_no_entry_points(
    monkeypatch: pytest.MonkeyPatch, numbers: Registry[int]
) -> None:
    def scan() -> None:
        raise AssertionError("entry points are read")

    monkeypatch.setattr(plugins, "_all_offers", scan)
    numbers.register("two", 2)
    assert [numbers.get(name) for name in ("one", "two")] == [1, 2]
    numbers.unregister("two")
    with pytest.raises(AssertionError):
        numbers.get("two")


def test_registering(numbers: Registry[int]) -> None:
    numbers.register("two", 2)
    for name in ("one", "two"):
        with pytest.raises(OptionError, match=f"number '{name}' exists already: choose another"):
            numbers.register(name, 2)
    with pytest.raises(OptionError, match="expected a number, found text"):
        numbers.register("three", "text")
    with pytest.raises(OptionError, match=r"unknown number 'three': expected one of one, two$"):
        numbers.get("three")
    with pytest.raises(OptionError, match="number 'one' was not registered"):
        numbers.unregister("one")
    with pytest.raises(OptionError, match="unknown thing 'x': none is registered or installed"):
        Registry("thing", {}, check, "no_such_group").get("x")


PLUGINS = {
    "raise OSError('gone')": "expected it to load, found OSError: gone; mend it",
    "import sys; sys.exit(3)": "expected it to load, found SystemExit: 3; mend it",
    "this is no Python": "expected it to load, found SyntaxError: invalid syntax",
    "from rammer_mlir.scheduling.policies import POLICIES, register_policy\n"
    "register_policy(POLICIES.get('list'))": "policy 'list' exists already: choose another name",
}


@pytest.mark.parametrize("code", PLUGINS)
def test_plugins_that_fail(tmp_path: Path, code: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code)
    for _ in range(2):
        with pytest.raises(OptionError) as refused:
            load_plugin(str(file))
        assert str(refused.value).startswith(f"plug-in '{file}': {PLUGINS[code]}")


def test_plugins_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"plug-in '.*gone.py': .* FileNotFoundError"):
        load_plugin(str(tmp_path / "gone.py"))
    with pytest.raises(OptionError, match=r"plug-in 'gone_module': .* No module named 'gone_mod"):
        load_plugin("gone_module")


def test_a_file_is_executed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text("print('executed')\n")
    load_plugin(str(file))
    load_plugin(str(file))
    assert capsys.readouterr().out == "executed\n"

"""Registers objects by name: built in, registered by a program, or offered by packages.

A package offers an object by an entry point (``importlib.metadata``). The entry point has the group
of the registry and the name of the object. Entry points are read when a name is looked up that is
neither built in nor registered. An entry point is loaded at its first use. ``load_plugin`` imports
a module or executes a file that registers objects.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, cast

from rammer_mlir.errors import OptionError, RammerError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

Check = Callable[[str, object], T]
"""A function of a name and an object that returns the object.

It raises an OptionError if the name or the object is invalid.
"""

Offers = Mapping[str, Mapping[str, "EntryPoint"]]
"""The entry points of a group, by name and then by package."""

_GROUPS = "rammer_mlir."
"""The common prefix of the names of all groups of entry points."""

_FILE_ENDING = ".py"

PLAIN_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
"""Names that can be in lists of names, and before a dot."""

_CLOSE = 0.85
"""Minimum similarity, as computed by `difflib`, of a misspelt name."""


@dataclass(frozen=True)
class Extension(Generic[T]):
    """An object that a package offers or a program has registered.

    Attributes:
        name: name by which users select the object.
        origin: the package that offers the object, or the module that defines a registered object.
        value: the object; None if it cannot be used.
        problem: one line with the reason why the object cannot be used; empty if it can be used.
    """

    name: str
    origin: str
    value: T | None
    problem: str = ""


class Registry(Generic[T]):
    """The objects of one kind, such as all policies, by name.

    An object is built in, registered by a program, or offered by an entry point of a package.
    """

    def __init__(
        self,
        noun: str,
        built_in: Mapping[str, T],
        check: Check[T],
        group: str,
        lazy: Mapping[str, str] | None = None,
    ) -> None:
        """Create a registry of the built-in objects.

        Args:
            noun: the term for an object in messages.
            built_in: the project's objects; entry points cannot replace them.
            check: checks an object that is registered or offered, and returns it.
            group: the entry points' group, without ``rammer_mlir.``.
            lazy: more built-in objects, as ``MODULE:NAME``, imported at their first use.
        """
        self.noun, self.group = noun, _GROUPS + group
        self._built_in, self._check = dict(built_in), check
        self._lazy = dict(lazy or {})
        self._registered: dict[str, T] = {}
        self._loaded: dict[str, T] = {}

    def get(self, name: str) -> T:
        """Return the object named ``name``; load it if an entry point offers it.

        Raises:
            OptionError: if the name is unknown (the message lists all names), or its entry point
                cannot be loaded.
        """
        found = self.find(name)
        if found is None:
            known = ", ".join(self.names())
            expected = f"expected one of {known}" if known else "none is registered or installed"
            raise OptionError(f"unknown {self.noun} '{name}': {expected}")
        return found

    def find(self, name: str) -> T | None:
        """Return the object named ``name``; None if the name is unknown.

        Raises:
            OptionError: if the entry point of this name cannot be loaded.
        """
        known = self.known(name)
        return self._load(name) if known is None else known

    def known(self, name: str) -> T | None:
        """Return the built-in or registered object named ``name``; None if there is none.

        No entry points are read.
        """
        if name in self._lazy and name not in self._built_in:
            module, _, attribute = self._lazy[name].partition(":")
            own = getattr(importlib.import_module(module), attribute)
            self._built_in[name] = self._check(name, own)
        return self._built_in.get(name, self._registered.get(name))

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted, with the names of entry points that are not loaded yet."""
        own = {*self._built_in, *self._lazy}
        return tuple(sorted({*own, *self._registered, *_offers(self.group)}))

    def is_built_in(self, name: str) -> bool:
        """Whether ``name`` is the name of a built-in object."""
        return name in self._built_in or name in self._lazy

    def register(self, name: str, value: object) -> None:
        """Register an object under a name.

        Raises:
            OptionError: if the registry's check refuses the object, or the name is taken.
        """
        checked = self._check(name, value)
        if self.known(name) is not None:
            raise OptionError(f"{self.noun} '{name}' exists already: choose another name")
        self._registered[name] = checked

    def unregister(self, name: str) -> None:
        """Remove a registered object.

        Raises:
            OptionError: if no object is registered under this name.
        """
        if self._registered.pop(name, None) is None:
            raise OptionError(f"{self.noun} '{name}' was not registered: expected one that was")

    def extensions(self) -> list[Extension[T]]:
        """Return all objects that a program has registered or a package offers.

        Entry points are loaded unless their name is taken. If an object cannot be used, the
        ``problem`` of the ``Extension`` has the reason.
        """
        registered = [Extension(n, _module_of(v), v) for n, v in sorted(self._registered.items())]
        offered = [
            self._extension(name, package)
            for name, offers in sorted(_offers(self.group).items())
            for package in sorted(offers)
        ]
        return [*registered, *offered]

    def _extension(self, name: str, package: str) -> Extension[T]:
        if self.known(name) is not None:
            problem = f"{self.noun} '{name}' of package '{package}': the name is taken; rename it"
            return Extension(name, package, None, problem)
        try:
            return Extension(name, package, self._load(name))
        except OptionError as error:
            return Extension(name, package, None, str(error))

    def _load(self, name: str) -> T | None:
        if name not in self._loaded:
            offers = _offers(self.group).get(name)
            if offers is None:
                return None
            self._loaded[name] = self._load_only(name, offers)
        return self._loaded[name]

    def _load_only(self, name: str, offers: Mapping[str, EntryPoint]) -> T:
        packages = sorted(offers)
        if len(packages) > 1:
            raise OptionError(
                f"{self.noun} '{name}': expected one package that offers it, found "
                f"{' and '.join(packages)}; uninstall all but one"
            )
        (package,) = packages
        try:
            return self._check(name, offers[package].load())
        except (Exception, SystemExit) as error:
            found = str(error) if isinstance(error, RammerError) else _loading(error)
            raise OptionError(
                f"{self.noun} '{name}' of package '{package}', entry point "
                f"'{offers[package].value}': {_one_line(found)}; mend or uninstall the package"
            ) from error


def refuse(expected: str, found: object) -> NoReturn:
    """Raise ``OptionError`` because a plug-in's object is not valid.

    Args:
        expected: text that describes valid objects.
        found: the invalid object, or a text that describes it.

    Raises:
        OptionError: always; the message contains both arguments.
    """
    raise OptionError(f"expected {expected}, found {_describe(found)}")


def check_name(name: str, own: object) -> None:
    """Check that an object that an entry point offers has the entry point's name.

    ``own`` is the name that the object gives itself, and ``name`` the name of the entry point.

    Raises:
        OptionError: if the names differ.
    """
    if own != name:
        raise OptionError(f"expected the name '{name}', found {own!r}")


def check_plain_name(name: str) -> None:
    """Check that a name begins with a letter, and has only letters, digits, ``_`` and ``-``.

    Such a name can be an element of a list of names, and can precede a dot.

    Raises:
        OptionError: if the name has other characters than ASCII letters, digits, ``_`` and ``-``,
            or does not begin with a letter.
    """
    if not isinstance(cast("object", name), str) or not PLAIN_NAME.fullmatch(name):
        refuse("a name of letters, digits, '_' and '-' that begins with a letter", repr(name))


def refuse_misspelt(value: object, optional: Collection[str]) -> None:
    """Check that no attribute of ``value``, an object of a plug-in, looks like a misspelled name.

    Without this check, a misspelled method would silently never be called. ``optional`` has the
    correct names of all optional attributes.

    Raises:
        OptionError: if the name of an attribute is similar to an optional name that ``value``
            lacks.
    """
    missing = [name for name in optional if not hasattr(value, name)]
    for name in dir(value):
        close = difflib.get_close_matches(name, missing, 1, _CLOSE)
        if close and not name.startswith("_"):
            refuse(f"'{close[0]}'", f"'{name}', which nothing calls; rename it")


def load_plugin(name: str) -> None:
    """Import the module ``name``, or execute the file ``name`` if the name ends in .py.

    A file that was executed before is not executed again.

    Raises:
        OptionError: with the message of an exception that the import or the file raises.
    """
    try:
        if name.endswith(_FILE_ENDING):
            _execute(Path(name).resolve())
        else:
            importlib.import_module(name)
    except RammerError as error:
        raise OptionError(f"plug-in '{name}': {error}") from error
    except (Exception, SystemExit) as error:
        raise OptionError(f"plug-in '{name}': {_one_line(_loading(error))}; mend it") from error


def load_plugins(names: Sequence[str]) -> None:
    """Load modules or files of plug-ins in order.

    Raises:
        OptionError: with the message of an exception that a module or file raises.
    """
    for name in names:
        load_plugin(name)


def _execute(path: Path) -> None:
    # Dataclasses resolve the types of their fields through the module's entry in sys.modules.
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"rammer_plugin_{path.stem}_{digest}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _offers(group: str) -> Offers:
    return _all_offers().get(group, {})


@functools.cache
def _all_offers() -> Mapping[str, Offers]:
    """Return the entry points of all installed packages, by group, name and package.

    A key of the result is the group of a registry, such as ``rammer_mlir.policies``. If a package
    is installed twice, its first installation counts.
    """
    # This import takes longer than all other imports at a tool's start.
    from importlib.metadata import distributions

    groups: dict[str, dict[str, dict[str, EntryPoint]]] = {}
    for distribution in distributions():
        try:
            found = [e for e in distribution.entry_points if e.group.startswith(_GROUPS)]
            package = distribution.name if found else ""
        except Exception:  # broken metadata may raise any type
            continue
        for entry in found:
            groups.setdefault(entry.group, {}).setdefault(entry.name, {}).setdefault(package, entry)
    return groups


def _module_of(value: object) -> str:
    return str(getattr(value, "__module__", type(value).__module__))


def _describe(found: object) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, type):
        return f"the class {found.__name__}"
    return type(found).__name__


def _loading(error: BaseException) -> str:
    return f"expected it to load, found {type(error).__name__}: {error}"


def _one_line(text: str) -> str:
    return " ".join(text.split())

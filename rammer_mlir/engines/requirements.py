"""Checks the packages that foreign code requires at run time, and opens their libraries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from rammer_mlir.errors import MissingPackageError, TargetError
from rammer_mlir.programs.modules import CodeModule, Requirement


def check_needs(modules: Iterable[CodeModule]) -> None:
    """Check that the packages that modules require are installed.

    Raises:
        MissingPackageError: if a package is not installed, or not in the required version.
    """
    checked = set[Requirement]()
    for module in modules:
        for need in module.needs:
            # Python parses the metadata of a package each time: most of the time to load.
            if need not in checked:
                _check(module, need)
                checked.add(need)


def unmet(need: Requirement) -> str:
    """Return a message if a required package is missing or has another version; else empty text.

    The message contains the required version, the installed version, and the command that installs
    the package.
    """
    try:
        found = distribution(need.package).version
    except PackageNotFoundError:
        found = ""
    if found and need.version in ("", found):
        return ""
    wanted = f"{need.package} {need.version}".rstrip()
    install = f"rammer-mlir[{need.extra}]" if need.extra else wanted.replace(" ", "==")
    return f"the package {wanted}, found {found or 'none'}; install it with 'pip install {install}'"


def missing(needs: Sequence[Requirement]) -> str | None:
    """Return a message about the first problem with required packages; None if there is none.

    A problem is a package that is missing or has another version, or a library that cannot be
    opened.
    """
    opened = (_open(need) for need in needs if need.library and not unmet(need))
    problems = (*map(unmet, needs), *(each for each in opened if isinstance(each, str)))
    return next(filter(None, problems), None)


def installed_versions(needs: Iterable[Requirement]) -> str:
    """Return the names and versions of required packages, which must be installed.

    The result is a text such as "onnxruntime 1.31.0"; a comma separates packages.
    """
    return ", ".join(f"{need.package} {distribution(need.package).version}" for need in needs)


def _check(module: CodeModule, need: Requirement) -> None:
    problem = unmet(need)
    if problem:
        raise MissingPackageError(
            f"module '{module.name}': expected {problem}, or compile with another code generator",
            need.package,
        )


def open_libraries(module: CodeModule) -> list[ctypes.CDLL]:
    """Open and return the shared libraries of the packages that a module needs.

    If the process has already loaded another copy of a library, that copy is not used.

    Raises:
        TargetError: if a library cannot be opened.
    """
    found = [_open(need) for need in module.needs if need.library]
    for problem in found:
        if isinstance(problem, str):
            raise TargetError(f"module '{module.name}': expected {problem}")
    return [library for library in found if not isinstance(library, str)]


def library_path(need: Requirement) -> Path:
    """Return the path of the shared library that a requirement names.

    Raises:
        FileNotFoundError: if the package is not installed, or has no such library.
    """
    return package_file(need.package, need.library)


def package_file(package: str, ending: str) -> Path:
    """Return the path of a file that the installed package ``package`` contains.

    The file is the first of the package whose path ends with ``ending``, in which ``*`` matches
    any text.

    Raises:
        FileNotFoundError: if the package is not installed, or has no such file.
    """
    try:
        found = distribution(package)
    except PackageNotFoundError as error:
        raise FileNotFoundError(f"the package {package} is not installed") from error
    for file in found.files or ():
        if fnmatchcase(file.as_posix(), f"*{ending}"):
            return Path(str(found.locate_file(file))).resolve()
    raise FileNotFoundError(f"the package {package} has no file {ending}")


def _open(need: Requirement) -> ctypes.CDLL | str:
    """Open and return the shared library that a requirement names.

    On failure, return an error message instead, with the expected library, the error and advice.
    """
    try:
        # RTLD_LOCAL and DEEPBIND: another copy may be loaded in the process, as by PyTorch.
        return ctypes.CDLL(str(library_path(need)), mode=os.RTLD_LOCAL | os.RTLD_NOW | _DEEP)
    except (OSError, PackageNotFoundError) as error:
        return (
            f"the library {need.library} of the package {need.package} to load, found '{error}'; "
            f"{_advice(str(error))}"
        )


def _advice(problem: str) -> str:
    """Return the clause of an error message that tells what to install for a library to load.

    ``problem`` is the dynamic loader's message about the library that failed to load.
    """
    for library, packages in _SYSTEM_LIBRARIES.items():
        if problem.startswith(f"{library}:"):
            return f"install the system's package of {library}: {packages}"
    return "install the package again"


_SYSTEM_LIBRARIES = {"libgomp.so.1": "libgomp1 (Debian, Ubuntu) or libgomp (Fedora)"}
"""System packages to install, by a library that a Python package needs but does not contain."""


_DEEP = getattr(os, "RTLD_DEEPBIND", 0)


def find_function(libraries: Sequence[ctypes.CDLL], symbol: str) -> int:
    """Return the address of ``symbol`` in the first library that has this symbol; else 0."""
    for library in libraries:
        try:
            return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    return 0

"""Imports packages that parts of this project require but that may not be installed.

Running artifacts requires only NumPy; compiling requires all dependencies. After ``pip install
--no-deps``, any dependency may be missing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from rammer_mlir.errors import MissingPackageError

COMPILER = "install what compiling needs with 'pip install rammer-mlir'"
"""The advice of the message about a missing package that only the compiler needs."""

_ADVICE = {
    "llvmlite": COMPILER,
    "ml_dtypes": "install it with 'pip install ml_dtypes'",
    "numpy": "install it with 'pip install numpy'",
    "onnx": COMPILER,
    "onnx_ir": COMPILER,
    "onnxscript": COMPILER,
}
"""The advice of the message about each missing dependency.

The MLIR bindings are left out, because their own module reports their absence.
"""


@contextmanager
def told_if_missing() -> Generator[None]:
    """Replace the import error of a missing dependency by an error of one line, within the block.

    Import errors of packages that are not dependencies of this project are raised unchanged.

    Raises:
        MissingPackageError: for the first package that an import did not find.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if isinstance(error, MissingPackageError) or name not in _ADVICE:
            raise
        raise missing(name, f"this needs the package '{name}'", _ADVICE[name]) from error


def missing(name: str, wanted: str, advice: str) -> MissingPackageError:
    """Return the exception to raise if a package is not installed.

    Args:
        name: the name of the package.
        wanted: the beginning of the message: a clause that names the use and the package.
        advice: the end of the message: how to install the package.
    """
    return MissingPackageError(f"{wanted}: expected it installed, found none; {advice}", name=name)


def optional_package(name: str, purpose: str, advice: str) -> ModuleType:
    """Import and return the optional package or module ``name``.

    ``purpose`` (the feature that needs the package) and ``advice`` (how to install the package) are
    parts of the error's message.

    Raises:
        MissingPackageError: if the package is not installed.
    """
    package = name.partition(".")[0]
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise missing(package, f"{purpose} needs the package '{package}'", advice) from error


def narrow_floats() -> ModuleType:
    """Import and return ``ml_dtypes``, the package of narrow float and integer types for NumPy.

    Raises:
        MissingPackageError: if it is not installed.
    """
    return optional_package("ml_dtypes", "a tensor of bfloat16 or its kin", _ADVICE["ml_dtypes"])

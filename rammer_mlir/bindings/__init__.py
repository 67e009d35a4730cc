"""The one place that decides which MLIR Python bindings are used.

``mlir`` (the wheels of the LLVM project) is taken when it can be imported and has dialects defined
from Python (``mlir.dialects.ext``); else ``torch_mlir``, which carries the same API under another
name. The environment variable ``RAMMER_MLIR_BINDINGS`` names the package to use instead. Nothing
else in the project imports either package.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

_CANDIDATES = ("mlir", "torch_mlir")


def _has_python_dialects(package: str) -> bool:
    try:
        return importlib.util.find_spec(f"{package}.dialects.ext") is not None
    except ModuleNotFoundError:
        return False


def _choose_package() -> str:
    override = os.environ.get("RAMMER_MLIR_BINDINGS")
    if override:
        if not _has_python_dialects(override):
            raise ImportError(
                f"RAMMER_MLIR_BINDINGS names '{override}', which cannot be imported or is too old: "
                "expected a package with the module 'dialects.ext'; "
                f"unset it or set it to one of {', '.join(_CANDIDATES)}"
            )
        return override
    for package in _CANDIDATES:
        if _has_python_dialects(package):
            return package
    raise ImportError(
        "no MLIR Python bindings found: expected 'mlir' (LLVM 23 or newer) or 'torch_mlir'; "
        "install them with 'pip install torch-mlir'"
    )


PACKAGE = _choose_package()
"""Name of the package that provides the bindings."""


def submodule(name: str) -> ModuleType:
    """Import ``PACKAGE.name``, for example ``dialects.transform.structured``."""
    return importlib.import_module(f"{PACKAGE}.{name}")


ir: Any = submodule("ir")
# Makes `from rammer_mlir.bindings.ir import Module` mean the bindings' own module.
sys.modules[f"{__name__}.ir"] = ir
passmanager: Any = submodule("passmanager")

_DIALECTS = (
    "affine arith bufferization cf ext func gpu irdl linalg llvm math memref scf tensor vector"
).split()


def __getattr__(name: str) -> ModuleType:
    """Import the bindings of a dialect when they are first asked for."""
    if name in _DIALECTS:
        return submodule(f"dialects.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

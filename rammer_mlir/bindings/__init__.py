"""Select the package of MLIR Python bindings that the project uses.

The package ``mlir`` (the wheels of the LLVM project) is used if it can be imported and supports
dialects and verifiers that are defined in Python. Otherwise ``torch_mlir`` is used, which provides
the same API under another name. The environment variable ``RAMMER_MLIR_BINDINGS`` overrides the
choice with a package name. No other module of the project imports either package.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

from rammer_mlir.errors import MissingPackageError

_VARIABLE = "RAMMER_MLIR_BINDINGS"
_CANDIDATES = ("mlir", "torch_mlir")
_NEEDED = ("DynamicOpTrait", "NoTerminatorTrait")
"""Names in the bindings' module ``ir`` that dialects with verifiers and traits in Python need."""


def _why_unusable(package: str) -> str | None:
    """Return the reason why the bindings in ``package`` cannot be used; None if they can."""
    try:
        if importlib.util.find_spec(f"{package}.dialects.ext") is None:
            return "is too old: it has no module 'dialects.ext'"
        found = importlib.import_module(f"{package}.ir")
    except ImportError as error:
        return f"cannot be imported ({error})"
    missing = [name for name in _NEEDED if not hasattr(found, name)]
    return f"is too old: its module 'ir' has no '{missing[0]}'" if missing else None


def _choose_package() -> str:
    override = os.environ.get(_VARIABLE)
    reasons: list[str] = []
    for package in (override,) if override else _CANDIDATES:
        reason = _why_unusable(package)
        if reason is None:
            return package
        reasons.append(f"'{package}' {reason}")
    advice = (
        f"unset {_VARIABLE} or set it to one of {', '.join(_CANDIDATES)}"
        if override
        else "install them with 'pip install torch-mlir', or all that compiling needs with "
        "'pip install rammer-mlir'"
    )
    raise MissingPackageError(
        "expected MLIR Python bindings that can define dialects, found none: "
        f"{'; '.join(reasons)}; {advice}",
        override or _CANDIDATES[0],
    )


PACKAGE = _choose_package()
"""Name of the package that provides the bindings: ``mlir``, ``torch_mlir``, or the override."""


def submodule(name: str) -> ModuleType:
    """Import and return the submodule ``name`` of the package that provides the bindings.

    ``name`` is relative to the package, for example ``dialects.transform.structured``.
    """
    return importlib.import_module(f"{PACKAGE}.{name}")


ir = submodule("ir")
# Lets `from rammer_mlir.bindings.ir import Module` resolve to the bindings' own module.
sys.modules[f"{__name__}.ir"] = ir
passmanager = submodule("passmanager")

# On each access to an operation the bindings look for its dialect's Python module until found
# once. Without this prefix they never find ours, and failing imports dominate the run time.
submodule("_mlir_libs._mlir").globals.append_dialect_search_prefix("rammer_mlir.dialects")


def _load_stablehlo() -> ModuleType | None:
    """Register StableHLO's passes; return its extension module, or None if the package lacks it."""
    if importlib.util.find_spec(f"{PACKAGE}._mlir_libs._stablehlo") is None:
        return None
    extension = submodule("_mlir_libs._stablehlo")
    extension.register_stablehlo_passes()
    return extension


stablehlo = _load_stablehlo()
"""StableHLO's extension module in torch-mlir; None with MLIR's own wheels, which lack it."""


_CREATED_BY = {
    "chlo": "convert-torch-to-stablehlo",
    "tm_tensor": "convert-torch-to-tmtensor",
}
"""A pass that creates operations, for each dialect that torch-mlir has but does not register."""


def load_created_dialect(name: str, context: object) -> None:
    """Load the dialect CHLO or TMTensor into ``context``, so that its text can be parsed.

    Nothing happens if the package lacks the dialect. The bindings have no function that loads these
    dialects, but a pass manager loads the dialects whose operations its passes create. Therefore
    this function runs such a pass of torch-mlir on an empty module in ``context``.

    Args:
        name: ``chlo`` or ``tm_tensor``.
        context: an MLIR context.
    """
    if stablehlo is None or importlib.util.find_spec(f"{PACKAGE}._mlir_libs._torchMlir") is None:
        return
    submodule("_mlir_libs._torchMlir")
    with context:  # type: ignore[attr-defined]
        empty = ir.Module.parse("module {}")
        creates_it = passmanager.PassManager.parse(
            f"builtin.module(func.func({_CREATED_BY[name]}))"
        )
        creates_it.run(empty.operation)


_DIALECTS = (
    "affine arith bufferization cf ext func gpu irdl linalg llvm math memref nvgpu nvvm rocdl scf "
    "tensor vector"
).split()


def __getattr__(name: str) -> ModuleType:
    """Import and return the bindings' module of the dialect ``name``, such as ``arith``."""
    if name in _DIALECTS:
        return submodule(f"dialects.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

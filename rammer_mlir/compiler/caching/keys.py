"""Keys of compilations: everything that decides what a model is compiled to, by name.

A key is the SHA-256 of its parts: the model, the options, the device description, the compiler's
own source, the versions of the packages that it stands on, and this processor. So nothing in the
cache is ever out of date.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path

from rammer_mlir.bindings import PACKAGE
from rammer_mlir.compiler.backends.registry import is_own_target
from rammer_mlir.compiler.caching.cache_file import Parts
from rammer_mlir.compiler.options import CheckedOptions
from rammer_mlir.compiler.specialization_inputs import Given
from rammer_mlir.errors import OptionError
from rammer_mlir.frontends.onnx.digest import model_digest
from rammer_mlir.frontends.onnx.source_folders import Source
from rammer_mlir.passes.regions.codegen import own_version
from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies import get_policy, is_own_policy
from rammer_mlir.support.cpu_features import cpu_features

_PACKAGES = ("numpy", "onnx", "onnx-ir", "onnxscript", "llvmlite")
"""Packages that the compiler stands on, besides the MLIR bindings."""

_NO_COMPILER = ("__main__.py", "__pycache__", "benchmarks", "cli")
"""Parts of the package that do not decide what a model is compiled to."""

_BYTECODE = (".pyc", ".pyo")

_BINDINGS = {"mlir": "mlir-python-bindings"}
"""Names that bindings are installed by, where these are not the modules'."""

_LONGEST_TEXT = 48
"""Characters up to which a part of a key is kept as it is, for people; of longer ones, a digest."""


def compile_key(source: Source, options: CheckedOptions, shapes: Shapes | None) -> str | None:
    """Return the key of a compilation; None if it cannot be kept.

    That is so where the model or the device's file cannot be read, for policies, targets, cost
    functions and rKernels from outside, whose source is not known, and for costs that are measured,
    which have a cache of their own.
    """
    parts = artifact_parts(model_digest(source), options, Given(shapes or {}))
    return None if parts is None else digest_of(parts)


def artifact_parts(model: str | None, options: CheckedOptions, given: Given) -> Parts | None:
    """Return what decides the compilation of a model's digest; None if it cannot be kept."""
    if model is None or obstacle(model, options) is not None:
        return None
    return {"model": model, "given": given_digest(given), **compiler_parts(options)}


def compiler_parts(options: CheckedOptions) -> Parts:
    """Return what decides a compilation besides the model."""
    parts: dict[str, object] = {
        "policy": repr(get_policy(options.policy)),
        "device": repr(find_device(options.device)),
        "codegens": [(name, own_version(name)) for name in options.offload],
        "compiler": compiler_digest(),
        "processor": [platform.machine(), *cpu_features()],
    }
    decided = options.key()
    given = decided.pop("given")
    assert isinstance(given, dict)
    parts |= {f"option {name}": value for name, value in (decided | given).items()}
    return {name: _text(value) for name, value in parts.items()}


def digest_of(parts: Parts) -> str:
    """Return the SHA-256 of a key's parts."""
    return hashlib.sha256(json.dumps(dict(parts), sort_keys=True).encode()).hexdigest()


def given_digest(given: Given) -> str:
    """Return what identifies given shapes and values."""
    shapes = sorted((name, [int(n) for n in sizes]) for name, sizes in given.shapes.items())
    values = sorted((n, str(v.dtype), v.shape, v.tobytes().hex()) for n, v in given.values.items())
    return _text([shapes, values, given.is_repeated])


def _text(value: object) -> str:
    """Return a part of a key as text, or the digest of long text."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def obstacle(model: str | None, options: CheckedOptions) -> str | None:
    """Return why the program of a model's digest cannot be kept; None if it can."""
    if model is None:
        return "the model cannot be read"
    if not options.backend.runs_here:
        return "programs for other machines are not kept"
    if options.measured:
        return "measured costs have a cache of their own"
    if not _has_known_source(options):
        return "a policy, target, cost function, rKernel or code generator comes from outside"
    try:
        find_device(options.device)
    except OptionError as error:
        return str(error)
    return None


def _has_known_source(options: CheckedOptions) -> bool:
    """Whether all code that decides what a model is compiled to belongs to this project."""
    is_own = is_own_policy(options.policy) and is_own_target(options.target)
    is_known = all(own_version(name) is not None for name in options.offload)
    return is_own and is_known and not (options.costs or options.rkernels)


@functools.cache
def compiler_digest() -> str:
    """Return what identifies this compiler: its source, and the packages that it stands on."""
    found = hashlib.sha256()
    for package in (*_PACKAGES, _BINDINGS.get(PACKAGE, PACKAGE)):
        try:
            found.update(f"{package} {importlib.metadata.version(package)}\n".encode())
        except importlib.metadata.PackageNotFoundError:
            found.update(f"{package}\n".encode())
    for file in source_files(Path(__file__).parents[2]):
        found.update(file.read_bytes())
    return found.hexdigest()


def source_files(package: Path) -> list[Path]:
    """Return the files that decide what the compiler in a package's folder makes, in order.

    That is code, IR and device descriptions, whatever their endings; benchmarks only use it.
    """
    units = (unit for unit in sorted(package.iterdir()) if unit.name not in _NO_COMPILER)
    # A link to a folder is followed only where the search begins.
    parts = (sorted(unit.rglob("*")) if unit.is_dir() else [unit] for unit in units)
    return [f for part in parts for f in part if f.is_file() and f.suffix not in _BYTECODE]

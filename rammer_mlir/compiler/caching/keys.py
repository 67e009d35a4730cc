"""Computes cache keys from every input that affects the compiled program.

A key is the SHA-256 of these components: the model, the options, the device description, the
compiler's source, the versions of the packages that the compiler uses, and this machine's
processor. Entries therefore never become stale.
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
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.passes.regions.codegen import own_version
from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies import get_policy, is_own_policy
from rammer_mlir.support.cpu_features import cpu_features

_PACKAGES = ("numpy", "onnx", "onnx-ir", "onnxscript", "llvmlite", "ml_dtypes", "ortools")
"""Packages that the compiler depends on, besides the MLIR bindings."""

_NO_COMPILER = ("__main__.py", "__pycache__", "benchmarks", "cli")
"""Files and folders of the package that do not affect compiled programs."""

_BYTECODE = (".pyc", ".pyo")

_BINDINGS = {"mlir": "mlir-python-bindings"}
"""Distribution names of MLIR bindings, where these differ from the module's name."""

OPTION, DECIDED = "option ", "decided "
"""Prefixes of the names of key parts: an option as it is given, and as it is decided."""

_LONGEST_TEXT = 48
"""Number of characters up to which a key part is kept as text; longer text is hashed."""


def compile_key(source: Source, options: CheckedOptions, shapes: Shapes | None) -> str | None:
    """Return the key of a compilation; None if the program cannot be cached.

    A program cannot be cached in these cases:

    - The model or the device description cannot be read.
    - The program is for another machine.
    - Policies, targets, cost functions, rKernels or code generators come from other packages.
    - The costs of rKernels are measured. A separate cache stores measured costs.
    """
    model = model_digest(source)
    if model is None or obstacle(model, options) is not None:
        return None
    return digest_of(artifact_parts(model, Given(shapes or {}), compiler_parts(options)))


def artifact_parts(model: str, given: Given, compiler: Parts) -> Parts:
    """Return the named components of a compilation's key.

    Args:
        model: the model's digest.
        given: the input shapes and values that the model is compiled for.
        compiler: the components without those of the model, from ``compiler_parts``.
    """
    return {"model": model, "given": given_digest(given), **compiler}


def compiler_parts(options: CheckedOptions) -> Parts:
    """Return the components of a cache key by name, except those that depend on the model."""
    parts: dict[str, object] = {
        "policy": repr(get_policy(options.policy)),
        "device": repr(find_device(options.device)),
        "codegens": [(name, own_version(name)) for name in options.offload],
        "compiler": compiler_digest(),
        "processor": [platform.machine(), *cpu_features(), repr(host_machine())],
    }
    decided = options.key()
    given = decided.pop("given")
    assert isinstance(given, dict)
    # Apart: "num_veus", for instance, is None as given, and a number of cores as decided.
    parts |= {f"{OPTION}{name}": value for name, value in given.items()}
    parts |= {f"{DECIDED}{name}": value for name, value in decided.items()}
    return {name: _text(value) for name, value in parts.items()}


def digest_of(parts: Parts) -> str:
    """Return the SHA-256 of a key's named components, independent of their order, in hex."""
    return hashlib.sha256(json.dumps(dict(parts), sort_keys=True).encode()).hexdigest()


def given_digest(given: Given) -> str:
    """Return the input shapes and values ``given`` as text, or the digest of a long text."""
    shapes = sorted((name, [int(n) for n in sizes]) for name, sizes in given.shapes.items())
    values = sorted((n, str(v.dtype), v.shape, v.tobytes().hex()) for n, v in given.values.items())
    return _text([shapes, values, given.is_repeated])


def _text(value: object) -> str:
    """Return a component of a key as text: a string itself, and any other value as JSON.

    A text of more than ``_LONGEST_TEXT`` characters is replaced by ``sha256:`` and its digest.
    """
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def obstacle(model: str | None, options: CheckedOptions) -> str | None:
    """Return the reason why a model's program cannot be cached; None if the program can be cached.

    ``model`` is the model's digest, or None if the model cannot be read.
    """
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
    """Whether all policies, targets, cost functions, rKernels and code generators are built in.

    If so, the digest of this compiler's source covers their source.
    """
    is_own = is_own_policy(options.policy) and is_own_target(options.target)
    is_known = all(own_version(name) is not None for name in options.offload)
    return is_own and is_known and not (options.costs or options.rkernels)


@functools.cache
def compiler_digest() -> str:
    """Return the digest of this compiler: its source, and the versions of its dependencies."""
    found = hashlib.sha256()
    for package in (*_PACKAGES, _BINDINGS.get(PACKAGE, PACKAGE)):
        try:
            found.update(f"{package} {importlib.metadata.version(package)}\n".encode())
        except importlib.metadata.PackageNotFoundError:
            found.update(f"{package}\n".encode())
    # Versions do not change with each edit of an editable install, so hash the source itself.
    for file in source_files(Path(__file__).parents[2]):
        found.update(file.read_bytes())
    return found.hexdigest()


def source_files(package: Path) -> list[Path]:
    """Return the files in a package's folder that affect compiled programs, in order.

    Code, IR and device descriptions affect programs. Benchmarks, command-line tools and bytecode do
    not.
    """
    units = (unit for unit in sorted(package.iterdir()) if unit.name not in _NO_COMPILER)
    # ``rglob`` does not follow links to folders below its start, so iterate over the units first.
    parts = (sorted(unit.rglob("*")) if unit.is_dir() else [unit] for unit in units)
    return [f for part in parts for f in part if f.is_file() and f.suffix not in _BYTECODE]

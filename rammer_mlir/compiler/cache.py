"""Compiled models kept on disk, found again by what went into them.

An entry is an artifact whose name is the SHA-256 of everything that decides its content: the model
and its external data, the options, the device description, the compiler's own source, the versions
of the packages that it stands on, and this processor. Nothing is ever out of date; what was not
used for longest goes when the folder is full.

``RAMMER_CACHE_DIR`` names the folder (``~/.cache/rammer-mlir`` by default, or beneath
``XDG_CACHE_HOME``); empty, it turns the cache off. ``RAMMER_CACHE_BYTES`` limits its size.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import time
from concurrent.futures import Executor
from pathlib import Path

from rammer_mlir.bindings import PACKAGE
from rammer_mlir.compiler.backends.registry import is_own_target
from rammer_mlir.compiler.given import Given
from rammer_mlir.compiler.known_code import KnownCode
from rammer_mlir.compiler.options import CheckedOptions, refuse_samples
from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.frontends.onnx.digest import model_digest
from rammer_mlir.frontends.onnx.given import Source
from rammer_mlir.frontends.onnx.hosting.partition import HostedGraph
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.passes.regions.codegen import own_version
from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.runtime.artifact import read_artifact
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.loader import open_artifact
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies import get_policy, is_own_policy
from rammer_mlir.support.cpu_features import cpu_features
from rammer_mlir.support.log import LOGGER
from rammer_mlir.support.user_folder import user_folder

FOLDER_VARIABLE, BYTES_VARIABLE = "RAMMER_CACHE_DIR", "RAMMER_CACHE_BYTES"

DEFAULT_BYTES = 4 << 30

WORTH_SECONDS = 0.5
"""What compiles faster is not worth a file."""

_ENDING = ".rammer"

_PACKAGES = ("numpy", "onnx", "onnx-ir", "onnxscript", "llvmlite")
"""Packages that the compiler stands on, besides the MLIR bindings."""

_NO_COMPILER = ("__main__.py", "__pycache__", "benchmarks", "cli")
"""Parts of the package that do not decide what a model is compiled to."""

_BYTECODE = (".pyc", ".pyo")

_BINDINGS = {"mlir": "mlir-python-bindings"}
"""Names that bindings are installed by, where these are not the modules'."""


class CompileCache:
    """Artifacts in one folder, by key. Several processes may use a folder at once."""

    def __init__(self, folder: Path, limit: int = DEFAULT_BYTES) -> None:
        """Use a folder, which is made with the first entry, for up to ``limit`` bytes."""
        self.folder, self._limit = folder, limit

    def find(self, key: str, device: int = 0) -> CompiledModel | None:
        """Return the program of a key, None if there is none; a damaged entry is removed."""
        path = self._path(key)
        begin = time.perf_counter()
        try:
            if not path.is_file():
                LOGGER.info("cache: miss, no entry %s in '%s'", key, self.folder)
                return None
            executable = open_artifact(path, read_artifact(path), device)
        except (RammerError, OSError) as error:
            LOGGER.info("cache: miss, damaged entry %s removed: %s", key, error)
            self._remove(path)
            return None
        with contextlib.suppress(OSError):  # an entry of somebody else's
            os.utime(path)
        seconds = time.perf_counter() - begin
        executable.stats["seconds"] = {"cache": seconds}
        LOGGER.info("cache: hit, entry %s in '%s', %.3f s", key, self.folder, seconds)
        return executable

    def keep(self, key: str, executable: CompiledModel) -> None:
        """Write a program, if it was worth the while, and make room for it.

        Where that fails, for want of a linker or of space, the program is compiled again next time.
        """
        seconds = sum(executable.stats["seconds"].values())
        if seconds < WORTH_SECONDS:
            LOGGER.info("cache: not kept, %.3f s are less than %g s", seconds, WORTH_SECONDS)
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            executable.save(self._path(key))
            self._make_room()
        except (RammerError, OSError) as error:
            LOGGER.info("cache: not kept, %s", error)
            return
        LOGGER.info("cache: kept as entry %s in '%s'", key, self.folder)

    def _make_room(self) -> None:
        """Remove what was not used for longest."""
        entries = [(path, path.stat()) for path in self.folder.glob(f"*{_ENDING}")]
        used = sum(found.st_size for _, found in entries)
        for path, found in sorted(entries, key=lambda entry: entry[1].st_mtime_ns):
            if used <= self._limit:
                break
            self._remove(path)
            used -= found.st_size

    @staticmethod
    def _remove(path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            return  # a folder that may only be read

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_ENDING}"


def user_cache() -> CompileCache | None:
    """Return the user's cache; None if it is turned off, or there is no place for one.

    Raises:
        OptionError: if ``RAMMER_CACHE_BYTES`` is not a size.
    """
    text = os.environ.get(BYTES_VARIABLE, str(DEFAULT_BYTES))
    if not text.isdecimal():
        raise OptionError(f"{BYTES_VARIABLE}: expected a number of bytes, found '{text}'")
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        try:
            folder = str(user_folder())
        except RuntimeError:
            return None
    return CompileCache(Path(folder), int(text)) if folder else None


class CachedCompiler:
    """Compiles one model for several static shapes of its inputs, through a cache."""

    def __init__(
        self,
        source: Source,
        options: CheckedOptions,
        device: int = 0,
        executor: Executor | None = None,
        *,
        cached: bool = True,
    ) -> None:
        """Identify the model.

        Args:
            source: the model.
            options: of all compilations.
            device: number of the GPU.
            executor: where rKernels are measured.
            cached: whether the user's cache is asked, and keeps what is compiled.
        """
        self._options, self._device, self._executor = options, device, executor
        self._cache = user_cache() if cached and options.backend.is_cached else None
        self._digest = None if self._cache is None else model_digest(source)
        self._known: KnownCode | None = None  # of a model's parts only
        if self._cache is None:
            LOGGER.info("cache: not asked, %s", _why_no_cache(options, cached=cached))

    def of_part(self, given: Given, number: int) -> CachedCompiler:
        """Return what compiles a part of the model's host program for given shapes."""
        if self._known is None:
            self._known = KnownCode()
        part = copy.copy(self)
        if self._digest is not None:
            text = repr((self._digest, _given_parts(given), number))
            part._digest = hashlib.sha256(text.encode()).hexdigest()
        return part

    def find(self, given: Given) -> CompiledModel | None:
        """Return the cached program for inputs of given shapes; None without one."""
        if self._cache is None:
            return None
        key = key_of(self._digest, self._options, given)
        if key is None:
            LOGGER.info("cache: not asked, %s", _obstacle(self._digest, self._options))
            return None
        return self._cache.find(key, self._device)

    def compile(self, model: Model, given: Given) -> CompiledModel | HostedGraph:
        """Compile the model for inputs of given shapes, and keep it if it is one program.

        Raises:
            RammerError: as ``compile_model`` does.
        """
        # The compiler's own packages take a while to import.
        from rammer_mlir.compiler.compilation import compile_any_model

        made = compile_any_model(
            model, self._options, given, self._device, self._executor, self._known
        )
        key = None if self._cache is None else key_of(self._digest, self._options, given)
        if self._cache is not None and key is not None and isinstance(made, CompiledModel):
            self._cache.keep(key, made)
        return made

    def open_host_program(self, model: Model) -> HostedGraph | None:
        """Return the host program that serves all sizes of open dimensions; None without one."""
        from rammer_mlir.frontends.onnx import import_open

        found = import_open(model)
        if found is not None:
            refuse_samples(self._options)
        return found


def compile_key(source: Source, options: CheckedOptions, shapes: Shapes | None) -> str | None:
    """Return the key of a compilation; None if it cannot be kept.

    That is so where the model or the device's file cannot be read, for policies, targets, cost
    functions and rKernels from outside, whose source is not known, and for costs that are measured,
    which have a cache of their own.
    """
    return key_of(model_digest(source), options, Given(shapes or {}))


def key_of(model: str | None, options: CheckedOptions, given: Given) -> str | None:
    """Return the key of compiling the model of a digest, as ``compile_key`` does."""
    if _obstacle(model, options) is not None:
        return None
    parts = {
        "model": model,
        "given": _given_parts(given),
        "options": options.key(),
        "policy": repr(get_policy(options.policy)),
        "device": repr(find_device(options.device)),
        "codegens": [(name, own_version(name)) for name in options.offload],
        "compiler": _compiler(),
        "processor": [platform.machine(), *cpu_features()],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _given_parts(given: Given) -> list[object]:
    """Return what identifies shapes and values."""
    shapes = sorted((name, [int(n) for n in sizes]) for name, sizes in given.shapes.items())
    values = sorted((n, str(v.dtype), v.shape, v.tobytes().hex()) for n, v in given.values.items())
    return [shapes, values, given.is_repeated]


def _why_no_cache(options: CheckedOptions, *, cached: bool) -> str:
    """Return why a compilation does without the user's cache."""
    if not cached:
        return "the user compiles anew"
    if not options.backend.is_cached:
        return f"programs of the back end '{options.backend.name}' are not kept"
    if os.environ.get(FOLDER_VARIABLE) == "":
        return f"{FOLDER_VARIABLE} is empty"
    return f"there is no home folder; name a folder with {FOLDER_VARIABLE}"


def _obstacle(model: str | None, options: CheckedOptions) -> str | None:
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
def _compiler() -> str:
    """Identify this compiler: its source, and the packages that it stands on."""
    found = hashlib.sha256()
    for package in (*_PACKAGES, _BINDINGS.get(PACKAGE, PACKAGE)):
        try:
            found.update(f"{package} {importlib.metadata.version(package)}\n".encode())
        except importlib.metadata.PackageNotFoundError:
            found.update(f"{package}\n".encode())
    for file in source_files(Path(__file__).parents[1]):
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

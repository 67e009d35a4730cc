"""Caches compiled models on disk, keyed by digests of all inputs of their compilation.

``RAMMER_CACHE_DIR`` names the folder of the cache's file (``~/.cache/rammer-mlir`` by default, or
beneath ``XDG_CACHE_HOME``); if the variable is empty, nothing is cached. ``RAMMER_CACHE_BYTES``
limits the size. ``docs/cache.md`` describes the levels of the cache.
"""

from __future__ import annotations

import copy
import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rammer_mlir.compiler.caching.cache_file import CacheFile, Parts
from rammer_mlir.compiler.caching.differences import difference
from rammer_mlir.compiler.caching.hits import record_hit
from rammer_mlir.compiler.caching.keys import (
    artifact_parts,
    compiler_parts,
    digest_of,
    given_digest,
    obstacle,
)
from rammer_mlir.compiler.caching.rkernels import RKernelCache
from rammer_mlir.compiler.options import CheckedOptions, refuse_samples
from rammer_mlir.compiler.shared_code import KnownCode, KnownObjects
from rammer_mlir.compiler.specialization_inputs import Given
from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.frontends.onnx.digest import model_digest
from rammer_mlir.frontends.onnx.hosting.partition import HostedGraph
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.source_folders import ModelWithData, Source
from rammer_mlir.runtime.artifact import read_split, split_artifact
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.loader import open_artifact
from rammer_mlir.support.log import log_cache
from rammer_mlir.support.user_folder import user_folder

if TYPE_CHECKING:
    from rammer_mlir.compiler.caching.programs import ProgramCache

FOLDER_VARIABLE, BYTES_VARIABLE = "RAMMER_CACHE_DIR", "RAMMER_CACHE_BYTES"

DEFAULT_BYTES = 4 << 30

WORTH_SECONDS = 0.5
"""Compile time in seconds from which a program is cached."""

ARTIFACT = "artifact"
"""The cache level of whole artifacts; the model's part of their keys is a digest of its bytes."""


class CompileCache:
    """The cached artifacts of compiled models, by key; safe for concurrent processes."""

    def __init__(self, folder: Path, limit: int = DEFAULT_BYTES) -> None:
        """Use the cache file in ``folder``, which may grow to ``limit`` bytes.

        The first entry creates the file.
        """
        self.file = CacheFile(folder, limit)

    def find(self, key: str, device: int = 0, parts: Parts | None = None) -> CompiledModel | None:
        """Return the program stored under ``key``; None if there is no undamaged entry.

        A damaged entry is removed.

        Args:
            key: digest of all inputs of the compilation.
            device: index of the GPU that runs the program.
            parts: named components of the key. After a miss, the log names the components in which
                the most similar entry differs.
        """
        begin = time.perf_counter()
        entry = self.file.find(ARTIFACT, key)
        if entry is None:
            log_cache(f"{ARTIFACT}: miss, no entry {key}{difference(self.file, ARTIFACT, parts)}")
            return None
        path = self.file.path
        try:
            executable = open_artifact(path, read_split(path, entry.content, entry.bulk), device)
        except (RammerError, OSError) as error:
            self.file.report_unloadable(ARTIFACT, key, error)
            return None
        record_hit(executable, ARTIFACT, key, entry, begin)
        return executable

    def keep(
        self,
        key: str,
        executable: CompiledModel,
        parts: Parts | None = None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        """Store a program under ``key`` if making it took at least ``WORTH_SECONDS``.

        If its code came from the cache level of programs, only the time of preparation counts.

        If storing fails, for example without a linker or without space, the program is not stored,
        and no error is raised.

        Args:
            key: digest of all inputs of the compilation.
            executable: the program.
            parts: the named components of the key, stored for log messages after misses.
            is_current: tells whether the key still describes the model; else nothing is stored.
        """
        spent = executable.stats["seconds"]
        # A program that took only its weights anew already hits the program level; an artifact then
        # saves only the preparation.
        seconds = spent["preparation"] if "cache" in spent else sum(spent.values())
        if seconds < WORTH_SECONDS:
            log_cache(f"{ARTIFACT}: not kept, {seconds:.3f} s are less than {WORTH_SECONDS:g} s")
            return
        begin = time.perf_counter()
        if not is_current():
            log_cache(f"{ARTIFACT}: not kept, the model has changed since its digest was taken")
            return
        try:
            content, bulk = split_artifact(executable.artifact())
        except (RammerError, OSError) as error:
            log_cache(f"{ARTIFACT}: not kept, {error}")
            return
        if self.file.keep(ARTIFACT, key, content, bulk=bulk, parts=parts, seconds=seconds):
            size, taken = len(content) + sum(map(len, bulk)), time.perf_counter() - begin
            log_cache(f"{ARTIFACT}: kept entry {key}, {size} bytes in {taken:.3f} s")


def user_cache() -> CompileCache | None:
    """Return the user's cache; None if the cache is off, or no folder is available for it.

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


class Digest(str):
    """The hexadecimal digest of an MLIR module and its weights, a component of cache keys."""

    __slots__ = ()


class CachedCompiler:
    """Compiles a model for static shapes of its inputs, through the cache."""

    def __init__(
        self,
        source: Source | Digest,
        options: CheckedOptions,
        device: int = 0,
        executor: Executor | None = None,
        *,
        cached: bool = True,
    ) -> None:
        """Set the model and the options of its compilations.

        Args:
            source: the ONNX model; for an MLIR module, its digest.
            options: options of all compilations.
            device: index of the GPU.
            executor: runs measurements of rKernels; None measures in this process.
            cached: whether to look up and store programs in the user's cache.
        """
        self._options, self._device, self._executor = options, device, executor
        self._cache = user_cache() if cached and options.backend.is_cached else None
        self._source = source
        self._root = self._digest_of_source() if self._cache is not None else None
        self._path: tuple[tuple[str, int], ...] = ()
        rkernels = RKernelCache(None if self._cache is None else self._cache.file)
        self.known = KnownObjects(None, rkernels)
        if self._cache is None:
            log_cache(f"not asked, {_why_no_cache(options, cached=cached)}")

    def of_part(self, given: Given, number: int) -> CachedCompiler:
        """Return a compiler for a part of the model, or for a function of the MLIR module.

        Each part or function has its own cache keys.

        Args:
            given: input shapes and values for which the host program was made; empty for an MLIR
                module.
            number: index of the part in the host program, or of the function in the module.
        """
        if self.known.programs is None:  # parts of a model may have equal code
            self.known = replace(self.known, programs=KnownCode[tuple[bytes, ...]]())
        part = copy.copy(self)
        part._path = (*self._path, (given_digest(given), number))
        return part

    def _digest_of_source(self) -> str | None:
        given = self._source
        return given if isinstance(given, Digest) else model_digest(given)

    @property
    def _digest(self) -> str | None:
        """The digest of the model, or of the part or function; None if the model is unreadable."""
        found = self._root
        for given, number in self._path:
            if found is not None:
                found = hashlib.sha256(repr((found, given, number)).encode()).hexdigest()
        return found

    def find(self, given: Given) -> CompiledModel | None:
        """Return the cached program of the model for the input shapes and input values ``given``.

        Return None if the cache has no such program, is off, or cannot store the model's programs.
        """
        if self._cache is None:
            return None
        # Weights in another library's memory may change between two specializations.
        if isinstance(self._source, ModelWithData):
            self._root = self._digest_of_source()
        digest = self._digest
        problem = obstacle(digest, self._options)
        if digest is None or problem is not None:
            log_cache(f"not asked, {problem}")
            return None
        parts = artifact_parts(digest, given, compiler_parts(self._options))
        return self._cache.find(digest_of(parts), self._device, parts)

    def compile(self, model: Model, given: Given) -> CompiledModel | HostedGraph:
        """Compile the model for the input shapes and values ``given``; return the program.

        The program is also stored in the cache, unless options turn the cache off. If shapes depend
        on data, return the host program instead, with its parts uncompiled.

        Raises:
            RammerError: as ``compile_model`` does.
        """
        # The compiler's own packages take a while to import.
        from rammer_mlir.compiler.compilation import compile_any_model

        compiler = self._compiler_parts()
        made = compile_any_model(
            model, self._options, given, self._device, self._executor, self.known,
            self._programs(compiler),
        )  # fmt: skip
        if isinstance(made, CompiledModel):
            self._keep(made, given, compiler)
        return made

    def keep(self, made: CompiledModel, given: Given) -> None:
        """Store the program ``made`` for the input shapes and values ``given``.

        Do nothing if the compiler's options do not allow caching.
        """
        self._keep(made, given, self._compiler_parts())

    def _compiler_parts(self) -> Parts | None:
        """Return the components of keys that do not depend on the model; None without a cache.

        Each compilation computes the components again: a device's file or a tool may have changed
        since the previous compilation.
        """
        if self._cache is None or obstacle(self._digest, self._options) is not None:
            return None
        return compiler_parts(self._options)

    def _keep(self, made: CompiledModel, given: Given, compiler: Parts | None) -> None:
        digest = self._digest
        if self._cache is not None and digest is not None and compiler is not None:
            parts = artifact_parts(digest, given, compiler)
            self._cache.keep(digest_of(parts), made, parts, self._is_unchanged)

    def _is_unchanged(self) -> bool:
        """Whether the model still has the digest that the compiler took before reading it.

        Another program may have changed the file since then, or the weights in its memory.
        """
        return isinstance(self._source, bytes | Digest) or self._digest_of_source() == self._root

    def _programs(self, compiler: Parts | None) -> ProgramCache | None:
        """Return the cache level of programs; None if there is no cache or ``compiler`` is None.

        ``compiler`` has the components of cache keys that do not depend on the model.
        """
        from rammer_mlir.compiler.caching.programs import ProgramCache

        if self._cache is None or compiler is None:
            return None
        return ProgramCache(self._cache.file, self._options, compiler, WORTH_SECONDS)

    def open_host_program(self, model: Model) -> HostedGraph | None:
        """Return a host program that runs the model for all sizes of its open dimensions.

        A host program is a list of steps in Python; a step may call a compiled part of the model.
        Return None if the model needs no host program, or if no host program supports all sizes.
        """
        from rammer_mlir.frontends.onnx import import_open

        found = import_open(model)
        if found is not None:
            refuse_samples(self._options)
        return found


def _why_no_cache(options: CheckedOptions, *, cached: bool) -> str:
    """Return a text with the reason why a compilation does not use the user's cache.

    ``cached`` is False if the caller requests a compilation without the cache.
    """
    if not cached:
        return "the user compiles anew"
    if not options.backend.is_cached:
        return f"programs of the back end '{options.backend.name}' are not kept"
    if os.environ.get(FOLDER_VARIABLE) == "":
        return f"{FOLDER_VARIABLE} is empty"
    return f"there is no home folder; name a folder with {FOLDER_VARIABLE}"

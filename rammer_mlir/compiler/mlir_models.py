"""Compiles the functions of MLIR modules."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from rammer_mlir.compiler.cache import CachedCompiler, Digest
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import CheckedOptions
from rammer_mlir.compiler.program_facts import ProgramFacts
from rammer_mlir.compiler.specialization_inputs import Given
from rammer_mlir.errors import OptionError, RammerError, ShapeError
from rammer_mlir.frontends.mlir.importer import MlirEntry, read_entries
from rammer_mlir.frontends.mlir.sources import MlirSource
from rammer_mlir.open_models.constant_sharing import ConstantStore
from rammer_mlir.open_models.entries import EntriesModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.programs.dimensions import (
    OpenSignature,
    Shapes,
    Sizes,
    Wording,
    bind,
    describe_open,
    sizes_text,
)
from rammer_mlir.runtime.compiled import Array, CompiledModel, RunnableModel
from rammer_mlir.support.log import LOGGER


@dataclass(frozen=True)
class MlirRequest:
    """A module to compile, with its options; ``models.Request`` describes the fields."""

    source: MlirSource
    options: CheckedOptions
    shapes: Shapes
    dims: Sizes
    device: int
    executor: Executor | None
    cached: bool
    wording: Wording

    def entries(self) -> list[EntryCompiler]:
        """Return a compiler for each public function, or for ``source.entry`` if it is given.

        Raises:
            RammerError: if the module is invalid, or its functions contradict the request's sizes.
        """
        entries = read_entries(self.source)
        compiler = CachedCompiler(
            _digest(self.source), self.options, self.device, self.executor, cached=self.cached
        )
        self._check_names([entry.signature for entry in entries])
        return [
            EntryCompiler(
                entry, _options_of(entry, self.options), compiler.of_part(Given(), number),
                self._bound(entry.signature), self.device, self.executor,
            )
            for number, entry in enumerate(entries)
        ]  # fmt: skip

    def compile(self, specializations: int) -> CompiledModel | OpenModel | EntriesModel:
        """Compile the functions, or return models that are compiled when open dimensions are bound.

        A model with open dimensions keeps at most ``specializations`` programs in memory.

        Raises:
            RammerError: for every error that does not depend on the sizes of open dimensions.
        """
        entries = self.entries()
        if len(entries) == 1:
            return entries[0].model(specializations)
        models: dict[str, RunnableModel] = {}
        for each in entries:
            try:
                models[each.entry.name] = each.model(specializations)
            except RammerError as error:
                for model in models.values():
                    model.close()
                error.args = (f"function '{each.entry.name}': {error}",)
                raise
        return EntriesModel(models)

    def compilation(self) -> Compilation:
        """Return the compilation of the module's only function, which must have static shapes.

        The compilation begins at the stage that the function's IR has reached.

        Raises:
            OptionError: if there are several functions.
            RammerError: as ``entries`` does, or if a dimension is open.
        """
        entries = self.entries()
        if len(entries) > 1:
            names = ", ".join(repr(each.entry.name) for each in entries)
            raise OptionError(
                f"{self.source.name}: expected one public function, found {names}; choose one "
                "with entry (--entry)"
            )
        (entry,) = entries
        if entry.signature.is_open:
            raise ShapeError(
                f"{self.source.name}: expected static shapes, found "
                f"{describe_open(entry.signature)} open; give {self.wording.ask(entry.signature)}"
            )
        return entry.compilation({})

    def _check_names(self, signatures: Sequence[OpenSignature]) -> None:
        inputs = {tensor.name for each in signatures for tensor in each.inputs}
        symbols = {symbol for each in signatures for symbol in each.symbols}
        for what, given, known in (
            ("input", self.shapes, inputs), ("open dimension", self.dims, symbols),
        ):  # fmt: skip
            for name in given:
                if name not in known:
                    listed = ", ".join(map(repr, sorted(known))) or "none"
                    raise ShapeError(f"unknown {what} '{name}': expected one of {listed}")

    def _bound(self, signature: OpenSignature) -> OpenSignature:
        """Return ``signature`` with the request's shapes and sizes bound.

        Raises:
            ShapeError: if a shape or size contradicts the signature.
        """
        names = {tensor.name for tensor in signature.inputs}
        shapes = {name: shape for name, shape in self.shapes.items() if name in names}
        dims = {name: size for name, size in self.dims.items() if name in signature.symbols}
        bound = bind(signature, shapes, dims)
        if bound.problems:
            raise ShapeError("; ".join(bound.problems))
        return signature.with_sizes(bound.sizes)


@dataclass(frozen=True)
class EntryCompiler(ProgramFacts):
    """Compiles a function for static shapes of its inputs.

    Attributes:
        entry: the function to compile.
        options: options of all compilations.
        compiler: finds and stores the function's programs in the cache.
        signature: the function's signature, in which the sizes of the request are bound.
        device: index of the GPU.
        executor: runs measurements of rKernels; None measures in this process.
        weights: store through which all programs of the function share equal weights.
    """

    entry: MlirEntry
    options: CheckedOptions
    compiler: CachedCompiler
    signature: OpenSignature
    device: int
    executor: Executor | None
    weights: ConstantStore = field(default_factory=ConstantStore)

    def model(self, specializations: int) -> CompiledModel | OpenModel:
        """Return the function's model, compiled now or when open dimensions are bound.

        A model with open dimensions keeps at most ``specializations`` programs in memory.

        Raises:
            RammerError: if the function cannot be compiled.
        """
        if self.signature.is_open:
            return OpenModel(self.signature, self, specializations)
        return self._compiled({})

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> RunnableModel:
        """Return the program for these input shapes, by name.

        ``values`` is not used; the parameter is part of the interface that open models call.

        Raises:
            RammerError: if the function cannot be compiled for these shapes.
        """
        LOGGER.info("specialization for %s", sizes_text(bind(self.signature, shapes).sizes))
        made = self._compiled(shapes)
        self.weights.share(made)
        return made

    def compilation(self, shapes: Shapes) -> Compilation:
        """Return the function's compilation for the input shapes ``shapes``, by name.

        ``shapes`` is empty if the function has no open dimensions.

        Raises:
            RammerError: if the function cannot be compiled for these shapes.
        """
        begin = time.perf_counter()
        static = {**self.signature.shapes({}, {}), **shapes} if not shapes else dict(shapes)
        return Compilation.of_import(self.entry.bound(static), self.options, begin)

    def _compiled(self, shapes: Shapes) -> CompiledModel:
        given = Given(shapes or self.signature.shapes({}, {}))
        found = self.compiler.find(given)
        if found is not None:
            return found
        compilation = self.compilation(shapes)
        compilation.use_known(self.compiler.known)
        if self.executor is not None:
            compilation.profile(self.executor)
        made = compilation.executable(self.device)
        self.compiler.keep(made, given)
        return made


def _options_of(entry: MlirEntry, options: CheckedOptions) -> CheckedOptions:
    """Return ``options``, with the number of vEUs for which the function ``entry`` is scheduled.

    For a function that is not scheduled yet, return ``options`` unchanged.

    Raises:
        OptionError: if the user asks for another number of vEUs.
    """
    if entry.num_veus is None:
        return options
    if options.given["num_veus"] not in (None, entry.num_veus):
        raise OptionError(
            f"num_veus: expected {entry.num_veus}, for which {entry.file} is scheduled, found "
            f"{options.num_veus}; leave it out, or give the IR of an earlier stage"
        )
    return replace(options, num_veus=entry.num_veus)


def _digest(source: MlirSource) -> Digest:
    found = hashlib.sha256(b"mlir")
    for part in (source.content, repr(source.entry).encode()):
        # The length keeps the parts apart: "ab", "c" must differ from "a", "bc".
        found.update(len(part).to_bytes(8, "little") + part)
    for name, value in sorted(source.constants.items()):
        found.update(repr((name, value.dtype.name, value.shape)).encode() + value.tobytes())
    return Digest(found.hexdigest())

"""Runs a model with open dimensions, by a specialization for the shapes of its inputs."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rammer_mlir.errors import InputError, OptionError, RammerError
from rammer_mlir.open_models.arrays import shapes_of
from rammer_mlir.open_models.artifact import Specialization, write_specializations
from rammer_mlir.open_models.bindings import Given, bindings_of, joined_sizes
from rammer_mlir.open_models.pool import Entry, Key, Pool
from rammer_mlir.open_models.specializer import Specializer
from rammer_mlir.open_models.tree import ComposedModel, Node, TreeWriter, summed_stats, write_tree
from rammer_mlir.programs.dimensions import (
    OpenSignature,
    Shape,
    Shapes,
    bind,
    sizes_text,
)
from rammer_mlir.runtime.artifact import Artifact
from rammer_mlir.runtime.compiled import Array, CompiledModel, RunnableModel
from rammer_mlir.runtime.pinning import check_cores, check_threads
from rammer_mlir.runtime.signatures import PemKey, signer_of
from rammer_mlir.support.forks import renew_in_children
from rammer_mlir.support.paths import path_of
from rammer_mlir.timeline.spans import Timeline


class OpenModel(ComposedModel):
    """A model whose inputs have open dimensions.

    The arrays of a run determine the sizes of these dimensions. For each choice of sizes there is a
    specialization: a program of static shapes, compiled at its first use. The most recently used
    specializations stay in memory, up to a limit. Equal weights of several specializations are in
    memory once.

    ``run`` may be called from several Python threads; ``Executable`` describes the effect.
    """

    def __init__(
        self, signature: OpenSignature, specializer: Specializer, specializations: int
    ) -> None:
        """Begin without a specialization in memory.

        Args:
            signature: inputs and outputs with symbols in their shapes.
            specializer: supplies the program for given shapes: compiles it, or reads it from an
                artifact.
            specializations: greatest number of specializations in memory.
        """
        self._signature, self._specializer = signature, specializer
        self._limit = specializations
        self._names = [tensor.name for tensor in signature.inputs]
        self._read = [name for name in self._names if name not in signature.shape_values]
        self._pool = Pool(self._make, specializations)
        self._cores: tuple[int, ...] | None = None
        self._threads: int | None = None
        renew_in_children(self)

    @property
    def signature(self) -> OpenSignature:
        """Names, shapes and dtypes of inputs and outputs; a symbol is an open dimension."""
        return self._signature

    @property
    def input_names(self) -> Sequence[str]:
        """Names of the inputs, in the model's order."""
        return self._names

    @property
    def target(self) -> str:
        """Target of all specializations, for example ``cpu`` or ``nvvm:sm_90``."""
        return self._specializer.target

    @property
    def policy(self) -> str | None:
        """Name of the policy that schedules each specialization; None if unknown."""
        return self._specializer.policy

    @property
    def num_veus(self) -> int:
        """Number of vEUs that run each specialization."""
        return self._specializer.num_veus

    @property
    def specializations(self) -> list[dict[str, int]]:
        """Sizes, by symbol, of each specialization in memory, least recently used first."""
        return [self._sizes(key) for key in self._pool.keys()]

    @property
    def makes_new(self) -> bool:
        """Whether specializations for new sizes can be compiled.

        If False, the model has only the specializations that are stored in an artifact.
        """
        return self._specializer.makes_new

    @property
    def limit(self) -> int:
        """Greatest number of specializations in memory."""
        return self._limit

    @property
    def shapes(self) -> list[dict[str, Shape]]:
        """Input shapes, by name, of each specialization in memory, least recently used first."""
        return [self._shapes(key) for key in self._pool.keys()]

    @property
    def summary(self) -> str:
        """The open dimensions and the specializations in memory, as text for users."""
        lines = [f"open dimensions  {', '.join(self._signature.symbols)}"]
        lines += [f"specialization   {sizes_text(sizes)}" for sizes in self.specializations]
        return "\n".join(lines)

    @property
    def stats(self) -> dict[str, Any]:
        """Compile statistics, such as seconds per stage, summed over specializations in memory."""
        return summed_stats(self._pool.models())

    def run(self, feeds: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the specialization for the shapes of the arrays ``feeds``; compile it if missing.

        Args:
            feeds: arrays by input name, with the dtypes of the signature. Dimensions with the same
                symbol must have the same size.
            out: by output name, arrays into which outputs are written. New arrays are allocated for
                the other outputs.

        Returns:
            Arrays by output name, in the signature's order: the arrays of ``out``, or new arrays.

        Raises:
            InputError: lists every mismatch between ``feeds`` and the signature.
            RammerError: if the model cannot be compiled for these shapes.
        """
        entry = self._entry(feeds)
        try:
            if not self._signature.shape_values:
                return entry.model.run(feeds, out)
            # Shape values are constants of the specialization, so its program has no such inputs.
            return entry.model.run({name: feeds[name] for name in self._read}, out)
        except InputError:
            shapes_of(self._signature, feeds)  # gives a better message if the inputs are wrong
            raise
        finally:
            self._pool.release(entry)

    @contextmanager
    def specialization(self, feeds: Mapping[str, Any]) -> Generator[RunnableModel]:
        """Yield the specialization for the arrays ``feeds``; compile it if missing.

        The specialization stays open until the ``with`` block ends.

        Raises:
            RammerError: if the arrays do not fit the signature, or the model cannot be compiled for
                the arrays' shapes.
        """
        entry = self._entry(feeds)
        try:
            yield entry.model
        finally:
            self._pool.release(entry)

    def prepare(
        self,
        *,
        dims: Mapping[str, Given] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        **sizes: Given,
    ) -> None:
        """Compile specializations before the first run.

        Args:
            dims: one or several sizes for each open dimension; every combination of sizes is
                compiled.
            shapes: input shapes by name, instead of ``dims`` or in addition to ``dims``.
            sizes: additional ``dims`` as keywords, for example ``batch=8``.

        Raises:
            OptionError: if a dimension is unknown, has no size or is given twice, if ``dims`` or
                ``shapes`` is not a mapping, or if there are more combinations than specializations
                that may be in memory.
            RammerError: if a specialization cannot be compiled.
        """
        given = joined_sizes(dims, sizes)
        for bound in bindings_of(self._signature, given, shapes, self._limit):
            self._pool.release(self._pool.acquire(self._key(bound)))

    def keep(self, keys: Iterable[Key]) -> None:
        """Compile the specializations with these keys, if they are not in memory already.

        A key has the shapes of all inputs, then the bytes of the inputs whose elements determine
        shapes.
        """
        for key in keys:
            self._pool.release(self._pool.acquire(key))

    @contextmanager
    def held(self) -> Generator[list[tuple[Key, RunnableModel]]]:
        """Yield the specializations in memory as pairs (key, specialization).

        The specializations stay open until the ``with`` block ends, even if the cache drops some of
        them in the meantime.
        """
        held: list[tuple[Key, Entry]] = []
        try:
            for key in self._pool.keys():
                entry = self._pool.find(key)
                held += [] if entry is None else [(key, entry)]
            yield [(key, entry.model) for key, entry in held]
        finally:
            for _, entry in held:
                self._pool.release(entry)

    @property
    def models(self) -> Iterable[RunnableModel]:
        """The specializations in memory."""
        return self._pool.models()

    def use_threads(self, count: int | None) -> None:
        """Run the vEUs of every specialization on ``count`` threads of its own.

        None stands for the threads that all models share. ``Executable.use_threads`` describes the
        effect.

        Raises:
            OptionError: if the number is invalid, or the target is not a CPU.
        """
        if self._is_on_cpu:  # later specializations get them too
            self._threads, self._cores = None if count is None else check_threads(count), None
        super().use_threads(count)

    def pin(self, cores: Sequence[int] | None) -> None:
        """Pin each thread of every specialization to a core of ``cores``; None removes the pinning.

        ``Executable.pin`` describes the effect.

        Raises:
            OptionError: if the number of cores is not the number of threads, or the target is not a
                CPU.
            TargetError: if the operating system refuses.
        """
        if self._is_on_cpu:
            threads = self.num_veus if self._threads is None else min(self._threads, self.num_veus)
            self._cores = None if cores is None else check_cores(cores, threads)
        super().pin(cores)

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> Timeline:
        """Run once and return the measured times of each vEU's steps.

        ``feeds`` are arrays by input name. ``title`` is the timeline's title for users.

        Raises:
            OptionError: if the target is not a CPU, or the host runs the specialization in parts.
            RammerError: if the arrays do not fit the signature, or the model cannot be compiled for
                the arrays' shapes.
        """
        with self.specialization(feeds) as model:
            return model.record(feeds, title)

    def save(self, path: str | os.PathLike[str], *, sign: PemKey | None = None) -> None:
        """Write an artifact with the specializations in memory; equal weights are stored once.

        Args:
            path: the artifact.
            sign: an Ed25519 private key, as PEM bytes or the path of a PEM file, that signs the
                artifact; None for no signature.

        Raises:
            OptionError: if no specialization is in memory, the path or key is invalid, or a
                specialization is code for the emulator.
            TargetError: if no linker is found.
            ArtifactError: if the file cannot be written.
        """
        place = path_of(path, "save")
        signer = None if sign is None else signer_of(sign)
        with self.held() as held:
            if not held:
                raise OptionError(
                    f"save: expected at least one specialization, found none; {self._advice()}"
                )
            if self._signature.shape_values or not all(map(_is_program, held)):
                write_tree(place, self, signer)
                return
            programs = [Specialization(self._shapes(k), _artifact(model)) for k, model in held]
            write_specializations(place, self._signature, programs, signer)

    def node(self, tree: TreeWriter) -> Node:
        """Add the specializations in memory to an artifact; return this model's manifest node.

        ``tree`` collects the content of the artifact. The manifest is JSON; the node describes the
        model and its specializations.
        """
        with self.held() as held:
            found = [{"key": _written(key), "model": tree.node(model)} for key, model in held]
        tree.is_incomplete = tree.is_incomplete or not found
        return {**self.described("open"), "specializations": found}

    def close(self) -> None:
        """Close all specializations; the model cannot run afterwards."""
        self._pool.close()

    def forget_threads(self) -> None:
        """Reset the locks and the counts of running calls in a forked child process.

        The child lacks the parent's threads, which might hold a lock or use a specialization.
        """
        self._pool.forget_threads()

    def _entry(self, feeds: Mapping[str, Any]) -> Entry:
        """Return the cache entry of the specialization for the arrays ``feeds``.

        A missing specialization is compiled. The caller becomes a user of the entry, and has to
        release it.
        """
        values = self._signature.shape_values
        try:
            key: Key = tuple([feeds[name].shape for name in self._names])
            if values:
                key += tuple([feeds[name].tobytes() for name in values])
            entry = self._pool.find(key)
        except (KeyError, AttributeError, TypeError):
            entry = None
        # Only NumPy arrays take the fast path; lists and other arrays take the checked path.
        if entry is None:
            key = self._key(shapes_of(self._signature, feeds))
            key += tuple([np.asarray(feeds[name]).tobytes() for name in values])
            entry = self._pool.acquire(key)
        return entry

    def _make(self, key: Key) -> RunnableModel:
        try:
            model = self._specializer.make(self._shapes(key), self._values(key))
        except RammerError as error:
            error.args = (f"for {sizes_text(self._sizes(key))}: {error}",)
            raise
        if self._threads is not None:
            model.use_threads(self._threads)
        if self._cores is not None:
            model.pin(self._cores)
        return model

    def _key(self, shapes: Shapes) -> Key:
        return tuple(shapes[name] for name in self._names)

    def _shapes(self, key: Key) -> dict[str, Shape]:
        pairs = zip(self._names, key, strict=False)
        return {name: shape for name, shape in pairs if not isinstance(shape, bytes)}

    def _values(self, key: Key) -> dict[str, Array]:
        shapes = self._shapes(key)
        dtypes = {tensor.name: tensor.dtype for tensor in self._signature.inputs}
        pairs = zip(self._signature.shape_values, key[len(self._names) :], strict=True)
        return {
            name: np.frombuffer(content, dtypes[name]).reshape(shapes[name])
            for name, content in pairs
            if isinstance(content, bytes)
        }

    def _sizes(self, key: Key) -> dict[str, int]:
        return bind(self._signature, self._shapes(key)).sizes

    def _advice(self) -> str:
        sizes: Iterable[str] = (f"'{symbol}': 8" for symbol in self._signature.symbols)
        return f"run the model, or prepare(dims={{{', '.join(sizes)}}})"


def _is_program(entry: tuple[Key, RunnableModel]) -> bool:
    return isinstance(entry[1], CompiledModel)


def _written(key: Key) -> list[Any]:
    """Return a specialization's key for JSON: shapes as lists, bytes as hexadecimal text."""
    return [part.hex() if isinstance(part, bytes) else part for part in key]


def _artifact(model: RunnableModel) -> Artifact:
    """Return the content of an artifact for one specialization.

    ``model`` is the specialization, which must be a ``CompiledModel``.
    """
    assert isinstance(model, CompiledModel)
    return model.artifact()

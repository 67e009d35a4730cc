"""A model with open dimensions, ready to run."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rammer_mlir.errors import InputError, OptionError, RammerError
from rammer_mlir.open_models.arrays import shapes_of
from rammer_mlir.open_models.artifact import Specialization, write_specializations
from rammer_mlir.open_models.bindings import Given, bindings_of
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
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pinning import check_cores, check_threads
from rammer_mlir.runtime.signatures import PemKey, signer_of
from rammer_mlir.support.forks import renew_in_children
from rammer_mlir.support.paths import path_of
from rammer_mlir.timeline.files import write_timelines
from rammer_mlir.timeline.spans import Timeline


class OpenModel(ComposedModel):
    """A model whose inputs have open dimensions.

    The arrays of a run bind them. Each distinct binding is a specialisation: a program of static
    shapes, made when it is first asked for, and kept in memory until ``specializations`` others
    were used since. Equal weights of several specialisations are in memory once.

    ``run`` may be called from several Python threads: runs of one specialisation follow each
    other, those of several run at once.
    """

    def __init__(
        self, signature: OpenSignature, specializer: Specializer, specializations: int
    ) -> None:
        """Begin without a specialisation.

        Args:
            signature: inputs and outputs with symbols in their shapes.
            specializer: makes programs of static shapes.
            specializations: how many of them are kept in memory.
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
        """Names, shapes and types of inputs and outputs; a symbol is an open dimension."""
        return self._signature

    @property
    def input_names(self) -> Sequence[str]:
        """Names of the inputs, in the model's order."""
        return self._names

    @property
    def target(self) -> str:
        """What it is compiled for: ``cpu``, ``nvvm:sm_90``."""
        return self._specializer.target

    @property
    def policy(self) -> str | None:
        """Name of the policy that schedules each specialisation; None if that is not known."""
        return self._specializer.policy

    @property
    def num_veus(self) -> int:
        """VEUs that run each specialisation."""
        return self._specializer.num_veus

    @property
    def specializations(self) -> list[dict[str, int]]:
        """The sizes of the open dimensions of what is in memory, the least recently used first."""
        return [self._sizes(key) for key in self._pool.keys()]

    @property
    def makes_new(self) -> bool:
        """Whether specialisations are made for any sizes, and not only found in a file."""
        return self._specializer.makes_new

    @property
    def limit(self) -> int:
        """How many specialisations are kept in memory."""
        return self._limit

    @property
    def shapes(self) -> list[dict[str, Shape]]:
        """The shapes of the inputs of what is in memory, the least recently used first."""
        return [self._shapes(key) for key in self._pool.keys()]

    @property
    def summary(self) -> str:
        """The open dimensions and the specialisations in memory, in words."""
        lines = [f"open dimensions  {', '.join(self._signature.symbols)}"]
        lines += [f"specialisation   {sizes_text(sizes)}" for sizes in self.specializations]
        return "\n".join(lines)

    @property
    def stats(self) -> dict[str, Any]:
        """What the compiler measured of the specialisations in memory: seconds by stage, summed."""
        return summed_stats(self._pool.models())

    def run(self, feeds: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the specialisation for arrays of these shapes; make it if it is not in memory.

        Args:
            feeds: arrays by input name, of the signature's dtypes; equal symbols have equal sizes.
            out: arrays to write outputs to, by name; others are allocated.

        Returns:
            Arrays by output name, in the signature's order: those of ``out``, or new ones.

        Raises:
            InputError: with everything that does not fit the signature.
            RammerError: if the model cannot be compiled for these shapes.
        """
        entry = self._entry(feeds)
        try:
            if not self._signature.shape_values:
                return entry.model.run(feeds, out)
            # Shape values are constants of the specialisation.
            return entry.model.run({name: feeds[name] for name in self._read}, out)
        except InputError:
            shapes_of(self._signature, feeds)  # says more, if it is the inputs
            raise
        finally:
            self._pool.release(entry)

    @contextmanager
    def specialization(self, feeds: Mapping[str, Any]) -> Generator[RunnableModel]:
        """Give the program for arrays of these shapes; it is not closed before the end.

        Raises:
            RammerError: as for ``run``.
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
        """Make specialisations ahead of the first run.

        Args:
            dims: a size, or several, for each open dimension; every combination is made.
            shapes: of inputs, by name, in place of ``dims`` or beside them.
            sizes: more of ``dims``, as ``batch=8``.

        Raises:
            OptionError: if a dimension is unknown or has no size, or these are more specialisations
                than are kept in memory.
            RammerError: if one cannot be made.
        """
        for bound in bindings_of(self._signature, {**(dims or {}), **sizes}, shapes, self._limit):
            self._pool.release(self._pool.acquire(self._key(bound)))

    def keep(self, keys: Iterable[Key]) -> None:
        """Make the specialisations of some keys, which are then in memory."""
        for key in keys:
            self._pool.release(self._pool.acquire(key))

    @contextmanager
    def held(self) -> Generator[list[tuple[Key, RunnableModel]]]:
        """Give the specialisations in memory; none is closed before the end."""
        held: list[tuple[Key, Entry]] = []
        try:
            for key in self._pool.keys():
                entry = self._pool.find(key)
                held += [] if entry is None else [(key, entry)]
            yield [(key, entry.model) for key, entry in held]
        finally:
            for _, entry in held:
                self._pool.release(entry)

    def use_threads(self, count: int | None) -> None:
        """Run the vEUs on so many threads, as ``Executable.use_threads`` does, in all of them.

        Raises:
            OptionError: if the number is none, or the target is no CPU.
        """
        self._threads, self._cores = None if count is None else check_threads(count), None
        for model in self._pool.models():
            _executable(model, "use_threads").use_threads(count)

    def pin(self, cores: Sequence[int] | None) -> None:
        """Bind each thread to a core, as ``Executable.pin`` does, in all specialisations.

        Raises:
            OptionError: if there is not one core for each thread, or the target is no CPU.
            TargetError: if the system refuses.
        """
        threads = self.num_veus if self._threads is None else self._threads
        self._cores = None if cores is None else check_cores(cores, threads)
        for model in self._pool.models():
            _executable(model, "pin").pin(cores)

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> Timeline:
        """Run once and return what each vEU did when, under a title for people.

        Raises:
            OptionError: if the target is no CPU.
            RammerError: as for ``run``.
        """
        with self.specialization(feeds) as model:
            if isinstance(model, Executable):
                return model.record(feeds, title)
        raise OptionError(
            f"timeline: expected the target cpu, whose vEUs record times, found {self.target}; "
            "leave it out"
        )

    def timeline(self, path: str | os.PathLike[str], feeds: Mapping[str, Any]) -> None:
        """Run once while recording each vEU's work; write it as ``Executable.timeline`` does."""
        write_timelines(path, [self.record(feeds)])

    def save(self, path: str | os.PathLike[str], *, sign: PemKey | None = None) -> None:
        """Write the specialisations in memory, with weights that are equal once.

        Args:
            path: the file.
            sign: a private key for Ed25519, in PEM or the file of it, to sign the artifact with.

        Raises:
            OptionError: if there are none, the path or the key is none, or emulated code is to be
                saved.
            TargetError: if no linker is found.
            ArtifactError: if the file cannot be written.
        """
        place = path_of(path, "save")
        signer = None if sign is None else signer_of(sign)
        with self.held() as held:
            if not held:
                raise OptionError(
                    f"save: expected at least one specialisation, found none; {self._advice()}"
                )
            if self._signature.shape_values or not all(map(_is_program, held)):
                write_tree(place, self, signer)
                return
            programs = [Specialization(self._shapes(k), _artifact(model)) for k, model in held]
            write_specializations(place, self._signature, programs, signer)

    def node(self, tree: TreeWriter) -> Node:
        """Add the specialisations in memory to a tree; return what finds them again."""
        with self.held() as held:
            found = [{"key": _written(key), "model": tree.node(model)} for key, model in held]
        return {**self.described("open"), "specializations": found}

    def close(self) -> None:
        """Close all specialisations; the model cannot run any more."""
        self._pool.close()

    def forget_threads(self) -> None:
        """Start afresh in a forked child."""
        self._pool.forget_threads()

    def _entry(self, feeds: Mapping[str, Any]) -> Entry:
        """Return what runs arrays of these shapes."""
        values = self._signature.shape_values
        try:
            key: Key = tuple([feeds[name].shape for name in self._names])
            if values:
                key += tuple([feeds[name].tobytes() for name in values])
            entry = self._pool.find(key)
        except (KeyError, AttributeError, TypeError):
            entry = None
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
            _executable(model, "use_threads").use_threads(self._threads)
        if self._cores is not None:
            _executable(model, "pin").pin(self._cores)
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
    """Return a key as JSON: a shape as it is, the bytes of a shape value in hexadecimal."""
    return [part.hex() if isinstance(part, bytes) else part for part in key]


def _artifact(model: RunnableModel) -> Artifact:
    """Return the content of a specialisation's artifact."""
    assert isinstance(model, CompiledModel)
    return model.artifact()


def _executable(model: RunnableModel, call: str) -> Executable:
    """Return a specialisation that has threads; only a CPU's do."""
    if not isinstance(model, Executable):
        raise OptionError(f"{call}: expected the target cpu, found {model.target}; leave it out")
    return model

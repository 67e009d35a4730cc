"""Finds a cached program without preparing the model again: the cache level of preparations.

Preparation infers shapes, folds constants and decomposes operators; it takes far longer than
loading a cached program. The key is the canonical form of the loaded model, which contains no
names, and no values of weights. An entry contains the program's key in the cache level of programs.
The entry also describes how to get the prepared model's names and weights from the loaded model's
names and weights.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rammer_mlir.compiler.caching.differences import difference
from rammer_mlir.compiler.caching.keys import given_digest
from rammer_mlir.compiler.caching.programs import (
    ProgramCache,
    ProgramKey,
    Replacement,
    form_digest,
    hash_of,
)
from rammer_mlir.compiler.specialization_inputs import Given
from rammer_mlir.compiler.weight_recipes import Recipe, array_from_json, array_to_json
from rammer_mlir.frontends.onnx.canonical import CanonicalGraph, canonical_source
from rammer_mlir.frontends.onnx.model import LARGE, Model
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.frontends.onnx.weight_values import weight_values
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.support.log import log_cache

PREPARATION = "preparation"

_MOST_BYTES = 1 << 20
"""Most bytes of weights that preparation computes and that an entry stores.

The weights of convolutions with folded batch norms, for example, would fill the cache.
"""

_NameSource = tuple[int, str]
"""A name of the prepared model: the index of a name of the loaded model, and a suffix.

The suffix is appended to the name. The index is -1 for a name that begins with no name of the
loaded model; the suffix is then the whole name.
"""


class ProgramLookup:
    """Looks for a model's program in the cache: before the model is prepared, and afterwards."""

    def __init__(self, programs: ProgramCache, source: Model, given: Given) -> None:
        """Compute the key of the loaded model ``source``.

        ``given`` has the input shapes and values for which the model is specialized.
        """
        self._begin = time.perf_counter()
        self._programs, self._file = programs, programs.file
        self._key = self._prepared_key = self._prepared = None
        self._weights: Sequence[Array] = ()
        specialized = _by_position(given, source) if programs.stores else None
        if specialized is not None:
            values = weight_values(source)
            graph = canonical_source(source, values)
            self._weights = [values[name] for name in graph.weights]
            sections = {f"model {name}": hash_of(text) for name, text in graph.sections.items()}
            parts = {**sections, "given": given_digest(specialized), **programs.compiler}
            self._key = ProgramKey(graph, parts)

    def find(self) -> Executable | None:
        """Return the cached program of the loaded model.

        Return None if no entry leads from the loaded model to a cached program.
        """
        if self._key is None:
            return None
        with self._file.kept_open():
            return self._find(self._key)

    def _find(self, key: ProgramKey) -> Executable | None:
        begin, digest, graph = time.perf_counter(), key.digest, key.graph
        entry = self._file.find(PREPARATION, digest)
        if entry is None:
            why = difference(self._file, PREPARATION, key.parts)
            log_cache(f"{PREPARATION}: miss, no entry {digest}{why}")
            return None
        try:
            if zlib.decompress(entry.identity) != graph.form:
                log_cache(f"{PREPARATION}: miss, entry {digest} is of another model")
                return None
            kept = _Preparation.from_json(json.loads(entry.content))
            changed = kept.changed(graph, self._weights)
            replacement = kept.replacement(graph, self._weights)
        except (zlib.error, LookupError, ValueError, TypeError) as error:
            log_cache(f"{PREPARATION}: miss, damaged entry {digest} removed: {error}")
            self._file.remove(PREPARATION, digest)
            return None
        if changed is not None:
            log_cache(f"{PREPARATION}: miss, preparation reads '{changed}', which has new values")
            return None
        seconds = time.perf_counter() - begin
        log_cache(f"{PREPARATION}: hit, entry {digest}, {entry.num_bytes} bytes in {seconds:.3f} s")
        return self._timed(self._programs.find_by_digest(kept.program, kept.form, replacement))

    def find_prepared(self, prepared: Model) -> Executable | None:
        """Return the cached program of the prepared model; None if it has to be compiled.

        If the program is found, store an entry that leads from the loaded model to this program.
        """
        self._prepared = prepared
        self._prepared_key = self._programs.key(prepared)
        if self._prepared_key is None:
            return None
        found = self._timed(self._programs.find(self._prepared_key, prepared))
        if found is not None:
            self._keep_preparation()
        return found

    def keep(self, made: CompiledModel, recipes: Mapping[int, Recipe]) -> None:
        """Store the compiled program ``made``, and an entry that leads from the loaded model to it.

        ``recipes`` tells how to pack each weight, by argument index of the entry function.
        """
        key = self._prepared_key
        if key is not None and self._programs.keep(key, made, recipes):
            self._keep_preparation()

    def _timed(self, found: Executable | None) -> Executable | None:
        """Add the seconds of the preparation to the statistics of the program ``found``.

        The preparation took the seconds since this object was created, minus the seconds that the
        statistics contain already, such as the time of the look-up in the cache. Return ``found``,
        which is None if the program is not in the cache.
        """
        if found is not None:
            spent = found.stats["seconds"]
            before = time.perf_counter() - self._begin - sum(spent.values())
            found.stats["seconds"] = {"preparation": before, **spent}
        return found

    def _keep_preparation(self) -> None:
        key, program, prepared = self._key, self._prepared_key, self._prepared
        if key is None or program is None or prepared is None:
            return
        begin = time.perf_counter()
        found = _Preparation.of(program, key.graph, self._weights, prepared)
        if isinstance(found, str):
            log_cache(f"{PREPARATION}: not kept, {found}")
            return
        content, identity = json.dumps(found.to_json()).encode(), zlib.compress(key.graph.form, 1)
        if self._file.keep(PREPARATION, key.digest, content, identity=identity, parts=key.parts):
            size, taken = len(content) + len(identity), time.perf_counter() - begin
            log_cache(f"{PREPARATION}: kept entry {key.digest}, {size} bytes in {taken:.3f} s")


@dataclass(frozen=True)
class _Preparation:
    """The content of an entry: how to get a prepared model from a loaded model.

    The canonical form of a model is a text without names and without values of weights. It is equal
    for models that differ only in these and in the order of nodes.

    Attributes:
        program: digest of the program's key in the cache level of programs.
        form: ``form_digest`` of the prepared model's canonical form.
        read: SHA-256 of each weight whose values preparation reads, by the weight's index in the
            loaded model.
        weights: weights of the prepared model, in canonical order: the index of an unchanged weight
            of the loaded model, or an array that preparation computed.
        names: three lists, in canonical order: names of the prepared model's weights, of its nodes,
            and of its inputs and outputs. A name is a pair: the index of a name of the loaded
            model, or -1, and a suffix.
    """

    program: str
    form: str
    read: Mapping[int, str]
    weights: Sequence[int | Array]
    names: tuple[Sequence[_NameSource], Sequence[_NameSource], Sequence[_NameSource]]

    @staticmethod
    def of(
        program: ProgramKey, graph: CanonicalGraph, given: Sequence[Array], prepared: Model
    ) -> _Preparation | str:
        """Return a description of how to get the model ``prepared`` from the loaded model.

        If there is no such description, return the reason as text.

        Args:
            program: the key of ``prepared`` in the cache level of programs.
            graph: the loaded model's canonical form, with the names that the form leaves out.
            given: the loaded model's weights, in the order of ``graph``.
            prepared: the prepared model.
        """
        if prepared.warned:
            return "preparation warns of the model"
        if any(array.dtype.hasobject for array in given):
            return "the model has constant strings"
        large = {id(array): number for number, array in enumerate(given)}
        # Small constants are copied with the graph, large ones are passed on as they are.
        small = {
            name: number
            for number, (name, array) in enumerate(zip(graph.weights, given, strict=True))
            if array.size <= LARGE
        }

        def origin(name: str) -> int | Array:
            array = prepared.weights[name]
            number = large.get(id(array), small.get(name))
            return array if number is None or not _is_equal(array, given[number]) else number

        names = program.graph.weights
        weights = [origin(name) for name in names]
        read = [
            number
            for number, (name, array) in enumerate(zip(graph.weights, given, strict=True))
            if not prepared.read.isdisjoint((name, id(array)))
        ]
        # A weight that is neither passed on nor read may have been copied in another way.
        lost = set(range(len(given))) - set(read) - {n for n in weights if isinstance(n, int)}
        if lost:
            return f"it is unknown what preparation reads of weight '{graph.weights[min(lost)]}'"
        computed = sum(each.nbytes for each in weights if not isinstance(each, int))
        if computed > _MOST_BYTES:
            return f"preparation computes {computed} bytes of weights, more than {_MOST_BYTES}"
        before = _names(graph)
        prepared_names = (names, program.graph.nodes, program.graph.interface)
        first, second, third = (_sources_of(each, before) for each in prepared_names)
        digests = {number: _digest(given[number]) for number in read}
        form = form_digest(program.graph.form)
        return _Preparation(program.digest, form, digests, weights, (first, second, third))

    def changed(self, graph: CanonicalGraph, given: Sequence[Array]) -> str | None:
        """Return the name of a weight whose values differ from those that preparation read.

        Return None if no values differ. ``graph`` has a loaded model's names in canonical order,
        and ``given`` has the loaded model's weights in the same order.
        """
        for number, digest in self.read.items():
            if _digest(given[number]) != digest:
                return graph.weights[number]
        return None

    def replacement(self, graph: CanonicalGraph, given: Sequence[Array]) -> Replacement:
        """Return the weights and names that a loaded model has after preparation.

        ``graph`` has the loaded model's names in canonical order, and ``given`` has the loaded
        model's weights in the same order.
        """
        before = _names(graph)
        weights, nodes, interface = (
            [before[number] + ending if number >= 0 else ending for number, ending in each]
            for each in self.names
        )
        arrays = [given[each] if isinstance(each, int) else each for each in self.weights]
        return Replacement(arrays, nodes, (*interface, *weights))

    def to_json(self) -> Mapping[str, object]:
        """Return the entry as an object for JSON."""
        weights = [each if isinstance(each, int) else array_to_json(each) for each in self.weights]
        return {
            "program": self.program,
            "form": self.form,
            "read": list(self.read.items()),
            "weights": weights,
            "names": self.names,
        }

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> _Preparation:
        """Return the entry that is stored as ``found``, a result of ``to_json``."""
        weights = [
            each if isinstance(each, int) else array_from_json(each) for each in found["weights"]
        ]
        first, second, third = found["names"]
        read = {number: digest for number, digest in found["read"]}
        return _Preparation(found["program"], found["form"], read, weights, (first, second, third))


def _is_equal(one: Array, other: Array) -> bool:
    """Whether two arrays are the same object, or have equal types, shapes and bytes."""
    if one is other:
        return True
    is_alike = one.dtype == other.dtype and one.shape == other.shape
    return is_alike and one.tobytes() == other.tobytes()


def _by_position(given: Given, source: Model) -> Given | None:
    """Return ``given`` with input indices, as text, in place of the input names of ``source``.

    Models that differ only in names thus get the same key. Return None if ``given`` has a name that
    is not an input of ``source``.
    """
    positions = {value.name: str(number) for number, value in enumerate(source.inputs)}
    if not positions.keys() >= given.shapes.keys() | given.values.keys():
        return None
    shapes = {positions[name]: shape for name, shape in given.shapes.items()}
    values = {positions[name]: value for name, value in given.values.items()}
    return Given(shapes, values, given.is_repeated)


def _digest(array: Array) -> str:
    return sha256(array.tobytes()).hexdigest()


def _names(graph: CanonicalGraph) -> tuple[str, ...]:
    """Return all names of a loaded model, in an order that only its canonical form determines.

    Names may be repeated. Inputs and outputs come first, because ``_sources_of`` uses the first of
    equal names.
    """
    return (
        *graph.interface, *graph.weights, *graph.literals, *graph.nodes, *graph.results
    )  # fmt: skip


def _sources_of(names: Iterable[str], before: Sequence[str]) -> list[_NameSource]:
    """Split each of ``names`` into its longest prefix that is in ``before``, and a suffix.

    ``before`` has the names of the loaded model; preparation makes a new name by appending a suffix
    to one of these names. Return pairs: the prefix's index in ``before``, and the suffix. If a name
    has no such prefix, the index is -1, and the suffix is the whole name.
    """
    numbers: dict[str, int] = {}
    for number, name in enumerate(before):
        numbers.setdefault(name, number)
    numbers.pop("", None)
    found: list[_NameSource] = []
    for name in names:
        lengths = (n for n in range(len(name), 0, -1) if name[:n] in numbers)
        length = next(lengths, 0)
        found.append((numbers[name[:length]] if length else -1, name[length:]))
    return found

"""Shares programs between models that differ only in weights and names: a level of the cache.

The key is a hash of the prepared model's canonical form, a text that contains no names and no
values of weights (Dali, section 3.3, caches transformations by a hash of the expression). At a hit,
the canonical form of the new model is also compared with that of the cached program's model. Then
the weights of the new model are packed by the recipes of the cached program.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from rammer_mlir.compiler.caching.cache_file import CacheFile, Parts
from rammer_mlir.compiler.caching.differences import difference
from rammer_mlir.compiler.caching.hits import record_hit
from rammer_mlir.compiler.caching.keys import digest_of
from rammer_mlir.compiler.options import CheckedOptions
from rammer_mlir.compiler.weight_recipes import Recipe, recipe_from_json
from rammer_mlir.errors import RammerError
from rammer_mlir.frontends.onnx.canonical import CanonicalGraph, canonical_graph
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.lowering.program.constants import pack_constants
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.proof import Proof, ValuePlace
from rammer_mlir.programs.records import Operator, Program
from rammer_mlir.programs.signature import Signature
from rammer_mlir.runtime.artifact import Artifact, read_split, split_artifact
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.loader import open_artifact
from rammer_mlir.support.aligned import aligned_bytes
from rammer_mlir.support.log import log_cache

PROGRAM = "program"

_REPLAY = "replay"
"""Key in ``stats`` of recipes, node names and value names, to reuse a program."""


@dataclass(frozen=True)
class ProgramKey:
    """The key of a prepared model in the cache level of programs.

    Attributes:
        graph: the model's canonical form, which contains no names and no values of weights; also
            the names that the form leaves out.
        parts: named components of the key.
    """

    graph: CanonicalGraph
    parts: Parts

    @property
    def digest(self) -> str:
        """The SHA-256 of the key's components; the cache finds the program by this digest."""
        return digest_of(self.parts)


@dataclass(frozen=True)
class Replacement:
    """The weights and names of a model for which a cached program is reused.

    Weights and nodes are in canonical order, an order that does not depend on names.

    Attributes:
        weights: weights of the prepared model.
        nodes: names of the nodes.
        values: names of the inputs, then of the outputs, then of the weights.
    """

    weights: Sequence[Array]
    nodes: Sequence[str]
    values: Sequence[str]

    @staticmethod
    def of_prepared(graph: CanonicalGraph, model: Model) -> Replacement:
        """Return the weights and names of a prepared model.

        ``graph`` has the names of its weights, nodes, inputs and outputs in canonical order.
        """
        weights = [model.weights[name] for name in graph.weights]
        return Replacement(weights, graph.nodes, (*graph.interface, *graph.weights))


class ProgramCache:
    """The cache level of programs, which ignores the values of a model's weights."""

    def __init__(
        self, file: CacheFile, options: CheckedOptions, compiler: Parts, worth: float
    ) -> None:
        """Use a cache file for programs that took at least ``worth`` seconds to compile.

        ``compiler`` has the components of a key that do not depend on the model.
        """
        self.file, self.options, self.compiler = file, options, compiler
        self._worth = worth

    @property
    def stores(self) -> bool:
        """Whether this level stores programs: only CPU programs that use no code generators."""
        return self.options.backend.repacks_weights and not self.options.offload

    def key(self, model: Model) -> ProgramKey | None:
        """Return the key of a prepared model; None if this level does not store programs."""
        if not self.stores:
            log_cache(f"{PROGRAM}: not asked, only for programs of a CPU without foreign code")
            return None
        graph = canonical_graph(model)
        sections = {f"graph {name}": hash_of(text) for name, text in graph.sections.items()}
        return ProgramKey(graph, {**sections, **self.compiler})

    def find(self, key: ProgramKey, model: Model) -> Executable | None:
        """Find the cached program of ``key``; return it with the weights and names of ``model``.

        Return None if the cache has no valid program with this key.
        """
        form, new = key.graph.form, Replacement.of_prepared(key.graph, model)
        # Compare the whole form, since the key is only a hash.
        return self._find(key.digest, lambda kept: kept == form, new, key.parts)

    def find_by_digest(self, digest: str, form: str, replacement: Replacement) -> Executable | None:
        """Find the cached program of a key; return it with the weights and names of a new model.

        Return None if the cache has no valid program with this key.

        Args:
            digest: the digest of the program's key.
            form: ``form_digest`` of the new model's canonical form after preparation.
            replacement: the weights and names of the new model.
        """
        return self._find(digest, lambda kept: form_digest(kept) == form, replacement)

    def _find(
        self,
        digest: str,
        is_form: Callable[[bytes], bool],
        replacement: Replacement,
        parts: Parts | None = None,
    ) -> Executable | None:
        """Find the cached program of a key; return it with the weights and names of a new model.

        Return None if there is no such program. A damaged entry is removed, and counts as missing.

        Args:
            digest: the digest of the program's key.
            is_form: tells whether the cached program's canonical form is also that of the new
                model.
            replacement: the weights and names of the new model.
            parts: the components of the key, for the log message of a miss.
        """
        begin = time.perf_counter()
        entry = self.file.find(PROGRAM, digest)
        if entry is None:
            log_cache(f"{PROGRAM}: miss, no entry {digest}{difference(self.file, PROGRAM, parts)}")
            return None
        try:
            if not is_form(zlib.decompress(entry.identity)):
                log_cache(f"{PROGRAM}: miss, entry {digest} is of another graph")
                return None
            path = self.file.path
            artifact = replayed(read_split(path, entry.content, entry.bulk), replacement)
            executable = open_artifact(path, artifact)
        except (RammerError, OSError, zlib.error, LookupError, ValueError, TypeError) as error:
            self.file.report_unloadable(PROGRAM, digest, error)
            return None
        assert isinstance(executable, Executable)
        record_hit(executable, PROGRAM, digest, entry, begin)
        return executable

    def keep(
        self, key: ProgramKey, executable: CompiledModel, recipes: Mapping[int, Recipe]
    ) -> bool:
        """Store a program without its weights, if compiling it took at least ``worth`` seconds.

        Return whether the program was stored.

        ``recipes`` tells how to pack each weight, by argument index of the entry function. When the
        program is reused for another model, the recipes pack the weights of that model.
        """
        seconds = sum(executable.stats["seconds"].values())
        if seconds < self._worth:
            log_cache(f"{PROGRAM}: not kept, {seconds:.3f} s are less than {self._worth:g} s")
            return False
        assert isinstance(executable, Executable)
        begin = time.perf_counter()
        numbers = {name: number for number, name in enumerate(key.graph.weights)}
        try:
            content, _ = split_artifact(_without_weights(executable, key.graph, recipes, numbers))
        except (RammerError, OSError) as error:
            log_cache(f"{PROGRAM}: not kept, {error}")
            return False
        identity = zlib.compress(key.graph.form, 1)
        is_kept = self.file.keep(
            PROGRAM, key.digest, content, identity=identity, parts=key.parts, seconds=seconds
        )
        if is_kept:
            size, taken = len(content) + len(identity), time.perf_counter() - begin
            log_cache(f"{PROGRAM}: kept entry {key.digest}, {size} bytes in {taken:.3f} s")
        return is_kept


def form_digest(form: bytes) -> str:
    """Return the SHA-256 of a model's whole canonical form as hexadecimal digits.

    An entry of the cache level of preparations refers by this digest to the prepared model.
    """
    return sha256(form).hexdigest()


def hash_of(form: bytes) -> str:
    """Return a component of a cache key: the SHA-256 of one section of a canonical form.

    The result begins with ``sha256:``; hexadecimal digits follow.
    """
    return f"sha256:{sha256(form).hexdigest()}"


def _without_weights(
    executable: Executable,
    graph: CanonicalGraph,
    recipes: Mapping[int, Recipe],
    numbers: Mapping[str, int],
) -> Artifact:
    artifact = executable.artifact()
    assert isinstance(artifact.image, CpuImage)
    replay = {
        "recipes": [[argument, each.to_json(numbers)] for argument, each in recipes.items()],
        "nodes": graph.nodes,
        "values": (*graph.interface, *graph.weights),
    }
    image = replace(artifact.image, constants=Constants((aligned_bytes(0),)))
    return Artifact(image, artifact.code, {**artifact.stats, _REPLAY: replay})


def replayed(kept: Artifact, new: Replacement) -> Artifact:
    """Return the cached program ``kept`` with the weights and names ``new``.

    Raise ValueError if the packed weights of ``new`` and of ``kept`` differ in total bytes.
    """
    stats = dict(kept.stats)
    replay = stats.pop(_REPLAY)
    weights = {str(number): array for number, array in enumerate(new.weights)}
    found = {
        argument: recipe_from_json(recipe, tuple(weights)).array(weights)
        for argument, recipe in replay["recipes"]
    }
    blob = pack_constants(found).blob
    # A different layout of weights would make the code read wrong bytes.
    if blob.nbytes != stats["constant_bytes"]:
        raise ValueError(f"{blob.nbytes} bytes of weights, expected {stats['constant_bytes']}")
    image = kept.image
    assert isinstance(image, CpuImage)
    nodes = _renamed(replay["nodes"], new.nodes)
    values = _renamed(replay["values"], new.values)
    image = replace(
        image,
        signature=_with_interface(image.signature, new.values),
        program=_with_names(image.program, nodes),
        proof=_with_value_names(image.proof, values),
        constants=Constants((blob,)),
    )
    return Artifact(image, kept.code, stats)


def _with_interface(signature: Signature, names: Sequence[str]) -> Signature:
    """Return ``signature`` with renamed inputs and outputs.

    ``names`` has the new names: inputs first, then outputs. Further names are ignored.
    """
    specs = (*signature.inputs, *signature.outputs)
    renamed = [replace(spec, name=name) for spec, name in zip(specs, names, strict=False)]
    count = len(signature.inputs)
    return Signature(tuple(renamed[:count]), tuple(renamed[count:]))


def _renamed(before: Sequence[str], after: Sequence[str]) -> dict[str, str]:
    return {old: new for old, new in zip(before, after, strict=True) if old != new}


def _with_names(program: Program, names: Mapping[str, str]) -> Program:
    def renamed(operator: Operator) -> Operator:
        return replace(operator, name=names.get(operator.name, operator.name))

    return replace(program, operators=tuple(map(renamed, program.operators))) if names else program


def _with_value_names(proof: Proof, names: Mapping[str, str]) -> Proof:
    """Return ``proof`` with renamed values; ``names`` maps old names to new names.

    ``proof`` contains names in quotes, ``names`` does not.
    """
    quoted = {f'"{old}"': f'"{new}"' for old, new in names.items()}

    def renamed(value: ValuePlace) -> ValuePlace:
        return replace(value, name=quoted.get(value.name, value.name))

    return replace(proof, values=tuple(map(renamed, proof.values))) if names else proof

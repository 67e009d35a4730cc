"""Runs a model that is compiled from a module with several public functions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from rammer_mlir.errors import OptionError
from rammer_mlir.open_models.tree import ComposedModel, Node, TreeWriter, summed_stats, write_tree
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.runtime.signatures import PemKey, signer_of
from rammer_mlir.support.paths import path_of


class EntriesModel(ComposedModel):
    """Functions compiled together; run a function with ``exe.entries["name"].run(feeds)``.

    The model of each function has its own inputs, outputs and threads.
    """

    def __init__(self, entries: Mapping[str, RunnableModel]) -> None:
        """Store the models of the functions, by function name; there must be at least one."""
        self._entries = dict(entries)

    @property
    def entries(self) -> Mapping[str, RunnableModel]:
        """The models of the functions, by name, in the module's order."""
        return self._entries

    @property
    def models(self) -> Iterable[RunnableModel]:
        """The models of the functions."""
        return self._entries.values()

    @property
    def signature(self) -> OpenSignature:
        """A signature without inputs and outputs; each function's model has its own signature."""
        return OpenSignature((), ())

    @property
    def input_names(self) -> Sequence[str]:
        """An empty sequence; each function's model has its own inputs."""
        return ()

    @property
    def target(self) -> str:
        """Target of all functions."""
        return self._first.target

    @property
    def policy(self) -> str | None:
        """Name of the policy that scheduled all functions; None if unknown."""
        return self._first.policy

    @property
    def num_veus(self) -> int:
        """Number of vEUs that run each function."""
        return self._first.num_veus

    @property
    def summary(self) -> str:
        """The summaries of all functions, as text for users."""
        return "\n".join(f"entry '{name}'\n{m.summary}" for name, m in self._entries.items())

    @property
    def stats(self) -> dict[str, Any]:
        """Compile statistics, such as seconds per stage, summed over the functions."""
        return summed_stats(self._entries.values())

    def run(self, feeds: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> NoReturn:
        """Raise an error: the caller has to choose a function in ``entries``.

        Raises:
            OptionError: always.
        """
        raise self._without_function("run")

    def __call__(self, *arrays: Any) -> NoReturn:
        """Raise an error: the caller has to choose a function in ``entries``.

        Raises:
            OptionError: always.
        """
        self.run({})

    def __repr__(self) -> str:
        """Return the names and models of the functions in one line."""
        named = ", ".join(f"'{name}': {model!r}" for name, model in self._entries.items())
        return f"EntriesModel({named})"

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> NoReturn:
        """Raise an error: the caller has to choose a function in ``entries``.

        Raises:
            OptionError: always.
        """
        raise self._without_function("record")

    def timeline(self, path: str | os.PathLike[str], feeds: Mapping[str, Any]) -> NoReturn:
        """Raise an error: the caller has to choose a function in ``entries``.

        Raises:
            OptionError: always.
        """
        raise self._without_function("timeline")

    def _without_function(self, call: str) -> OptionError:
        """Return the error that the method ``call`` was called without choosing a function."""
        return OptionError(
            f"{call}: expected one of the entries {', '.join(map(repr, self._entries))}, found "
            f"none; write exe.entries[NAME].{call}(...)"
        )

    def save(self, path: str | os.PathLike[str], *, sign: PemKey | None = None) -> None:
        """Write all functions to one artifact; equal weights are stored once.

        Args:
            path: the artifact.
            sign: an Ed25519 private key, as PEM bytes or the path of a PEM file, that signs the
                artifact; None for no signature.

        Raises:
            OptionError: if no program is in memory, the path or key is invalid, or a function is
                code for the emulator.
            TargetError: if no linker is found.
            ArtifactError: if the file cannot be written.
        """
        place = path_of(path, "save")
        write_tree(place, self, None if sign is None else signer_of(sign))

    def node(self, tree: TreeWriter) -> Node:
        """Add the functions' models to the artifact content ``tree``; return this model as JSON."""
        entries = [{"name": name, "model": tree.node(m)} for name, m in self._entries.items()]
        return {**self.described("entries"), "entries": entries}

    def close(self) -> None:
        """Close the models of all functions; they cannot run afterwards."""
        for model in self._entries.values():
            model.close()

    @property
    def _first(self) -> RunnableModel:
        return next(iter(self._entries.values()))

"""Writes artifacts of composed models, which consist of other models, as a tree.

The manifest's key ``model`` has the root of the tree. A node is a JSON object, and its ``kind`` is
one of:

- ``program``: a program, with the keys that the manifest of a single program has.
- ``open``: a model with open dimensions, with a signature and specializations.
- ``host``: a model with a host program, with the program's constants and parts.
- ``entries``: a model of several functions, with a model for each function name.

The file ``constants.bin`` has all weights, and the arrays of host programs. Equal arrays are stored
once.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rammer_mlir.errors import OptionError
from rammer_mlir.open_models.artifact import described_tensor
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.runtime.artifact import CONSTANTS, FORMAT, Pieces, entry_of, write_members
from rammer_mlir.runtime.compiled import REPLACED, CompiledModel, RunnableModel
from rammer_mlir.runtime.pinning import check_threads
from rammer_mlir.runtime.shared_weights import Weights
from rammer_mlir.runtime.signatures import Signer
from rammer_mlir.timeline.files import write_timelines
from rammer_mlir.timeline.spans import Timeline

TREE_VERSION = 7
"""Format version of files with a tree."""

Node = dict[str, Any]


class ComposedModel(RunnableModel):
    """A model that consists of other models; its artifact describes the models as a tree."""

    @property
    @abstractmethod
    def signature(self) -> OpenSignature:
        """Names, shapes and dtypes of inputs and outputs; a symbol is an open dimension."""

    @property
    @abstractmethod
    def models(self) -> Iterable[RunnableModel]:
        """The models in memory of which this model consists."""

    @abstractmethod
    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> Timeline:
        """Run once and return the measured times of each vEU's steps.

        ``feeds`` are arrays by input name. ``title`` is the timeline's title for users.

        Raises:
            OptionError: if the model does not run as a single program, or the target is not a CPU.
        """

    def timeline(self, path: str | os.PathLike[str], feeds: Mapping[str, Any]) -> None:
        """Run once, and write the measured times of each vEU's steps to the file ``path``.

        ``feeds`` are arrays by input name. ``Executable.timeline`` describes the formats.

        Raises:
            OptionError: if the model does not run as a single program, or the target is not a CPU.
        """
        write_timelines(path, [self.record(feeds)])

    def use_threads(self, count: int | None) -> None:
        """Run the vEUs of each of the models on ``count`` threads of its own.

        None stands for the threads that all models share. ``Executable.use_threads`` describes the
        effect.

        Raises:
            OptionError: if the number is invalid, or the target is not a CPU.
        """
        if not self._is_on_cpu:
            super().use_threads(count)
        if count is not None:
            check_threads(count)
        for model in self.models:
            model.use_threads(count)

    def pin(self, cores: Sequence[int] | None) -> None:
        """Pin each thread of each of the models to a core of ``cores``; None removes the pinning.

        ``Executable.pin`` describes the effect.

        Raises:
            OptionError: if the number of cores is not the number of threads, or the target is not a
                CPU.
            TargetError: if the operating system refuses.
        """
        if not self._is_on_cpu:
            super().pin(cores)
        for model in self.models:
            model.pin(cores)

    @property
    def _is_on_cpu(self) -> bool:
        return self.target.startswith("cpu")

    @abstractmethod
    def node(self, tree: TreeWriter) -> Node:
        """Add the programs in memory to an artifact; return this model's manifest node (JSON).

        ``tree`` collects the content of the artifact.
        """

    def described(self, kind: str) -> Node:
        """Return this model's manifest node, with only the keys common to all composed models.

        The keys are ``kind`` (of the node, such as ``open``), ``made`` (target, policy, number of
        vEUs), ``inputs``, ``outputs`` and ``shape_values``.
        """
        made = {"target": self.target, "policy": self.policy, "num_veus": self.num_veus}
        return {
            "kind": kind,
            "made": made,
            "inputs": [described_tensor(tensor) for tensor in self.signature.inputs],
            "outputs": [described_tensor(tensor) for tensor in self.signature.outputs],
            "shape_values": self.signature.shape_values,
        }


def summed_stats(models: Iterable[RunnableModel]) -> dict[str, Any]:
    """Return the compile statistics of several models together.

    The key ``seconds`` has the seconds of each stage, summed over the models. If the compiler's own
    rKernels replace modules of foreign code that cannot be used, the key ``replaced`` has the
    reasons, by module name.
    """
    seconds: dict[str, float] = {}
    replaced: dict[str, str] = {}
    for found in (model.stats for model in models):
        replaced |= found.get(REPLACED, {})
        for stage, time in found.get("seconds", {}).items():
            seconds[stage] = seconds.get(stage, 0.0) + time
    return {"seconds": seconds, **({REPLACED: replaced} if replaced else {})}


def write_tree(path: Path, model: ComposedModel, sign: Signer | None = None) -> None:
    """Write an artifact of a composed model; it contains the programs that are in memory.

    ``sign`` signs bytes, and returns the signature; None for an unsigned artifact.

    Raises:
        ArtifactError: if the file cannot be written.
        OptionError: if no part is in memory, or a part cannot be saved.
    """
    tree = TreeWriter()
    root = model.node(tree)
    if tree.is_incomplete and not tree.members:
        raise OptionError("save: expected at least one part in memory, found none; run the model")
    manifest = {"format": FORMAT, "version": TREE_VERSION, "model": root}
    constants = Constants(tuple(tree.weights.parts)).pieces
    write_members(path, manifest, {**tree.members, CONSTANTS: constants}, sign)


class TreeWriter:
    """Collects the content of a composed model's artifact, except the manifest.

    Attributes:
        weights: weights of all programs, and arrays of host programs.
        members: files of all programs, without the weights, by file name in the artifact.
        is_incomplete: whether an open model has no specialization in memory.
    """

    def __init__(self) -> None:
        """Create a writer without content."""
        self.weights = Weights()
        self.members: dict[str, Pieces] = {}
        self.is_incomplete = False
        self._programs = 0

    def node(self, model: RunnableModel) -> Node:
        """Add a model's programs; return the model's JSON description for the manifest."""
        if isinstance(model, ComposedModel):
            return model.node(self)
        assert isinstance(model, CompiledModel), "there is no other kind"
        entry, own = entry_of(model.artifact(), f"{self._programs}/", self.weights)
        self._programs += 1
        self.members |= own
        return {"kind": "program", **entry}

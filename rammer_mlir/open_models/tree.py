"""Writes artifacts of models that are composed of other models, as a tree.

The manifest's key ``model`` is the root of the tree. The ``kind`` of a node is ``program``, with
the keys of a single-program manifest; ``open``, with a signature and its specialisations; ``host``,
with a host program, its constants and its parts; or ``entries``, with the models of several
functions by name. Weights, and the arrays of host programs, are in one ``constants.bin``, with
equal arrays stored once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rammer_mlir.errors import OptionError
from rammer_mlir.open_models.artifact import described_tensor
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.runtime.artifact import CONSTANTS, FORMAT, Pieces, entry_of, write_members
from rammer_mlir.runtime.compiled import REPLACED, CompiledModel, RunnableModel
from rammer_mlir.runtime.shared_weights import Weights
from rammer_mlir.runtime.signatures import Signer

TREE_VERSION = 7
"""Format version of files with a tree."""

Node = dict[str, Any]


class ComposedModel(RunnableModel):
    """A model that is composed of other models, and saved as a node of a tree."""

    @property
    @abstractmethod
    def signature(self) -> OpenSignature:
        """Names, shapes and dtypes of inputs and outputs; a symbol is an open dimension."""

    @abstractmethod
    def node(self, tree: TreeWriter) -> Node:
        """Add the programs in memory to ``tree``; return this model's node of the manifest."""

    def described(self, kind: str) -> Node:
        """Return the keys that the manifest nodes of all composed models have.

        These are ``kind``, ``made`` (target, policy, number of vEUs), ``inputs``, ``outputs`` and
        ``shape_values``.
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
    """Return the statistics of compilation of several models: ``seconds`` by stage, summed.

    If modules of external code could not be used, so that the host's rKernels replace them, the key
    ``replaced`` has the reason for each of these modules, by the module's name.
    """
    seconds: dict[str, float] = {}
    replaced: dict[str, str] = {}
    for found in (model.stats for model in models):
        replaced |= found.get(REPLACED, {})
        for stage, time in found.get("seconds", {}).items():
            seconds[stage] = seconds.get(stage, 0.0) + time
    return {"seconds": seconds, **({REPLACED: replaced} if replaced else {})}


def write_tree(path: Path, model: ComposedModel, sign: Signer | None = None) -> None:
    """Write an artifact of a composed model, with all of its programs in memory.

    ``sign`` returns the signature of the bytes that it gets; None for an unsigned artifact.

    Raises:
        ArtifactError: if the file cannot be written.
        OptionError: if no part is in memory, or a part cannot be saved.
    """
    tree = TreeWriter()
    root = model.node(tree)
    if not tree.members:
        raise OptionError("save: expected at least one part in memory, found none; run the model")
    manifest = {"format": FORMAT, "version": TREE_VERSION, "model": root}
    constants = Constants(tuple(tree.weights.parts)).pieces
    write_members(path, manifest, {**tree.members, CONSTANTS: constants}, sign)


class TreeWriter:
    """Collects the content of a composed model's artifact, except the manifest.

    Attributes:
        weights: weights of all programs, and arrays of host programs.
        members: members of all programs by their names in the artifact, without the weights.
    """

    def __init__(self) -> None:
        """Begin without members."""
        self.weights = Weights()
        self.members: dict[str, Pieces] = {}
        self._programs = 0

    def node(self, model: RunnableModel) -> Node:
        """Add a model's programs; return the model's node of the manifest."""
        if isinstance(model, ComposedModel):
            return model.node(self)
        assert isinstance(model, CompiledModel), "there is no other kind"
        entry, own = entry_of(model.artifact(), f"{self._programs}/", self.weights)
        self._programs += 1
        self.members |= own
        return {"kind": "program", **entry}

"""Reads artifacts of composed models; ``open_models/tree.py`` documents the file format.

A composed model consists of other models: specializations, parts of a host program, or functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.hosted_models.steps_json import ArrayReader, read_program
from rammer_mlir.open_models.artifact import read_tensors
from rammer_mlir.open_models.entries import EntriesModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.pool import Key
from rammer_mlir.open_models.specializer import Made
from rammer_mlir.open_models.stored_specializations import HeldModels
from rammer_mlir.open_models.tree import TREE_VERSION, Node
from rammer_mlir.programs.constants import Bytes
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.runtime.artifact import Archive, Artifact
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.runtime.loader import open_artifact


def read_tree(
    archive: Archive, device: int, *, runs: bool = True
) -> Callable[[], OpenModel | HostedModel | EntriesModel]:
    """Read a composed model's artifact; return a function that makes the model ready to run.

    Args:
        archive: the open artifact.
        device: index of the GPU that runs GPU programs.
        runs: False if the caller will only print properties of the model; then packages that a run
            needs may be missing.

    Raises:
        ArtifactError: if the file was changed, or was compiled for another machine.
    """
    archive.require_version(TREE_VERSION)
    root = archive.manifest["model"]
    programs = _programs(root)
    for node in programs:
        archive.check_machine(node)
    archive.check_seal()
    blob = archive.constants()
    artifacts = {node["folder"]: archive.entry(node, blob) for node in programs}
    return partial(_Reader(archive.path, artifacts, blob, device, runs).composed, root)


def _programs(node: Node) -> list[Node]:
    if node["kind"] == "program":
        return [node]
    inner = [e["model"] for e in (*node.get("specializations", []), *node.get("entries", []))]
    return [found for part in (*inner, *node.get("parts", [])) for found in _programs(part)]


@dataclass(frozen=True)
class _Reader:
    path: Path
    artifacts: Mapping[str, Artifact]
    blob: Bytes
    device: int
    runs: bool

    def composed(self, node: Node) -> OpenModel | HostedModel | EntriesModel:
        if node["kind"] == "entries":
            return EntriesModel({e["name"]: self._model(e["model"]) for e in node["entries"]})
        return self._host(node) if node["kind"] == "host" else self._open(node)

    def _model(self, node: Node) -> RunnableModel:
        if node["kind"] != "program":
            return self.composed(node)
        artifact = self.artifacts[node["folder"]]
        return open_artifact(self.path, artifact, self.device, runs=self.runs)

    def _host(self, node: Node) -> HostedModel:
        program = read_program(node["program"], ArrayReader(self.blob))
        parts = [self._model(part) for part in node["parts"]]
        return HostedModel(_signature(node), program, parts, Made(**node["made"]))

    def _open(self, node: Node) -> OpenModel:
        entries = [(_key(e["key"]), self._model(e["model"])) for e in node["specializations"]]
        held = HeldModels(self.path, Made(**node["made"]), dict(entries))
        model = OpenModel(_signature(node), held, max(len(entries), 1))
        model.keep(entry for entry, _ in entries)
        return model


def _signature(node: Node) -> OpenSignature:
    inputs, outputs = read_tensors(node["inputs"]), read_tensors(node["outputs"])
    return OpenSignature(inputs, outputs, tuple(node["shape_values"]))


def _key(key: Sequence[Any]) -> Key:
    """Return the key of a specialization from its JSON representation.

    A key identifies a specialization by the input shapes and the bytes of the shape values. JSON
    has the shapes as lists, and the bytes as hexadecimal text.
    """
    return tuple(bytes.fromhex(p) if isinstance(p, str) else tuple(p) for p in key)

"""Writes and reads modules of the form ``binary``: a line of JSON, then exported OpenVINO models.

The JSON has the graph's inputs and outputs, and the size in bytes of each function's model. A model
has its function's weights in OpenVINO's layout; only the version that exported it can import it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

from rammer_mlir.engines.graphs.entry import Numbers, known_weights
from rammer_mlir.engines.graphs.openvino_library import OpenVinoLibrary
from rammer_mlir.engines.host import EntryHost
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import Graph
from rammer_mlir.programs.modules import CodeModule

FORMAT, _VERSION = "rammer-openvino", 1


def exported(library: OpenVinoLibrary, compiled: int) -> bytes:
    """Return the bytes to which OpenVINO exports the ``ov_compiled_model_t`` at ``compiled``.

    Raises:
        OpenVinoError: if OpenVINO cannot export the model.
    """
    with tempfile.TemporaryDirectory(prefix="rammer-") as folder:
        path = Path(folder) / "model.blob"
        library.call("compiled_model_export_model", compiled, str(path).encode())
        return path.read_bytes()


def binary_module(module: CodeModule, models: Sequence[bytes]) -> CodeModule:
    """Return a module of the form ``binary`` that replaces a module of the form ``graph``.

    Args:
        module: module with a graph.
        models: exported models, one for each function of the module.
    """
    interface = replace(Graph.from_json(module.content), constants=(), nodes=())
    head = {
        "format": FORMAT,
        "version": _VERSION,
        "interface": json.loads(interface.to_json()),
        "sizes": list(map(len, models)),
    }
    content = b"".join((json.dumps(head, separators=(",", ":")).encode(), b"\n", *models))
    # Without the extra: its pinned version may have changed when the file is loaded.
    needs = tuple(replace(n, version=version(n.package), extra="") for n in module.needs)
    return replace(module, form="binary", content=content, needs=needs)


def read_interface(host: EntryHost) -> tuple[Graph, dict[str, Numbers]]:
    """Return a module's graph without its operators, and its weights by input name.

    ``host`` supplies the module and the addresses of the weights.

    Raises:
        TargetError: if the module's content does not have the form ``binary``.
    """
    interface, _, _ = _read(host)
    return interface, known_weights(host, interface)


def read_blob(host: EntryHost) -> bytes:
    """Return the exported model of the function that ``host`` describes.

    Raises:
        TargetError: if the module's content does not have the form ``binary``.
    """
    _, sizes, start = _read(host)
    begin, end = [start + size for size in (0, *accumulate(sizes))][host.number : host.number + 2]
    return host.module.content[begin:end]


def _read(host: EntryHost) -> tuple[Graph, list[int], int]:
    """Return a module's graph without operators, its models' sizes, and the first model's offset.

    Sizes and offset are in bytes. Raises TargetError unless the content has the form ``binary``.
    """
    line, _, models = host.module.content.partition(b"\n")
    try:
        head: Any = json.loads(line)
        if (head["format"], head["version"]) != (FORMAT, _VERSION):
            raise ValueError(f"{head['format']} {head['version']}")
        interface = Graph.from_json(json.dumps(head["interface"]).encode())
        sizes = [int(size) for size in head["sizes"]]
        if sum(sizes) != len(models) or host.number >= len(sizes):
            raise ValueError(f"{len(models)} bytes of {len(sizes)} models")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TargetError(
            f"module '{host.module.name}': expected models that OpenVINO exported, found {error}; "
            "compile the model again"
        ) from error
    return interface, sizes, len(line) + 1

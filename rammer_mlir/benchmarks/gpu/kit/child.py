"""Run a case of a kit in this process, and return its result or an error."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.gpu.kit.baselines import open_torch, run_baseline
from rammer_mlir.benchmarks.gpu.kit.cases import Case
from rammer_mlir.benchmarks.gpu.kit.manifest import (
    GRAPHS,
    PROBE,
    PROGRAMS,
    Kit,
    Model,
    read_kit,
    store_of,
)
from rammer_mlir.benchmarks.gpu.kit.measure import (
    WrongOutputs,
    check_outputs,
    floor_seconds,
    time_program,
)
from rammer_mlir.benchmarks.gpu.kit.probe import Probe
from rammer_mlir.benchmarks.gpu.kit.programs import read_program
from rammer_mlir.benchmarks.gpu.kit.results import Status
from rammer_mlir.benchmarks.gpu.kit.store import Store
from rammer_mlir.benchmarks.gpu.kit.torch_graph import Graph, module_of, product_of
from rammer_mlir.errors import MissingPackageError, OptionError, RammerError
from rammer_mlir.runtime.gpu.cuda import CudaDriver

SANITIZER = "compute-sanitizer"

_PACKAGES = ("numpy", "torch", "cuda-bindings", "triton")


@dataclass(frozen=True)
class _Work:
    """A case of the kit in ``folder``, and how to run the case.

    ``seconds`` is the duration of each timing. If ``timed`` is false, only the outputs are checked.
    """

    folder: Path
    kit: Kit
    case: Case
    seconds: float
    timed: bool

    @property
    def store(self) -> Store:
        return store_of(self.folder)

    @property
    def model(self) -> Model:
        return self.kit.models[self.case.subject]

    def feeds(self) -> dict[str, Array]:
        return {name: self.store.get(found) for name, found in self.model.feeds.items()}

    def expected(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the expected outputs by name.

        Outputs of a product are computed from ``feeds`` in f64; other outputs are read from the
        store.
        """
        if not self.model.product:
            return {name: self.store.get(found) for name, found in self.model.expected.items()}
        x, w = (feeds[name].astype(np.float64) for name in "xw")
        return {"y": (x @ w).astype(feeds["x"].dtype)}


def run_case(folder: Path, name: str, seconds: float, *, timed: bool) -> dict[str, Any]:
    """Run case ``name`` of the kit in ``folder``, and return its result.

    Args:
        folder: the kit.
        name: name of the case.
        seconds: duration of each timing.
        timed: whether the case is timed; if not, only its outputs are checked.

    Returns:
        A dictionary with ``status``, a ``Status``. After a failure, the dictionary also has
        ``message``. Otherwise, its other keys depend on the kind of the case, such as times and
        errors of outputs.
    """
    work = _Work(folder, kit := read_kit(folder), kit.case(name), seconds, timed)
    try:
        return {"status": Status.OK, **_KINDS[work.case.kind](work)}
    except WrongOutputs as error:
        return {"status": Status.WRONG, "message": str(error)}
    except MissingPackageError as error:
        return {"status": Status.ABSENT, "message": str(error)}
    except RammerError as error:
        return {"status": Status.FAILED, "message": str(error)}


def _machine(work: _Work) -> dict[str, Any]:
    del work
    driver = CudaDriver(0)
    return {
        "device": driver.name,
        "chip": driver.chip,
        "driver": driver.version,
        "python": platform.python_version(),
        "system": platform.platform(),
        "sanitizer": shutil.which(SANITIZER),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _program(work: _Work) -> dict[str, Any]:
    case = work.case
    executable = read_program(work.folder / PROGRAMS, case.program, work.store)
    feeds = work.feeds()
    expected = work.expected(feeds)
    result = check_outputs(executable, feeds, expected, case.tolerance)
    if work.timed:
        result |= time_program(
            executable, feeds, expected, case.tolerance, work.seconds,
            several_sets=bool(work.model.product),
        )  # fmt: skip
    driver = executable.program.driver
    peaks = driver.peaks()
    if peaks is not None:
        facts = work.kit.programs[case.program]
        result["floor"] = floor_seconds(facts, peaks, work.kit.target, work.model.product)
    return result


def _probe(work: _Work) -> dict[str, Any]:
    path = work.folder / PROBE
    try:
        code = path.read_bytes()
    except OSError as error:
        raise OptionError(
            f"cannot read '{path}' ({error}): expected the probe's code; pack the kit again"
        ) from error
    found = Probe(CudaDriver(0), code).measure()
    wrong = [f"{h['poll']} over {h['blocks']}" for h in found["hand_offs"] if not h["right"]]
    if not wrong and not found["wrong_shared_loads"]:
        return found
    message = (
        f"{found['wrong_shared_loads']} loads from shared addresses that wrap are wrong; hand-offs "
        f"with wrong numbers: {', '.join(wrong) or 'none'}"
    )
    return {**found, "status": Status.WRONG, "message": message}


def _torch(work: _Work) -> dict[str, Any]:
    torch = open_torch()
    feeds = work.feeds()
    expected = work.expected(feeds)
    if work.model.product:
        module: Any = product_of(torch)
    else:
        path = work.folder / GRAPHS / work.model.graph
        graph = Graph.of_json(json.loads(path.read_text(encoding="utf-8")))
        arrays = {name: work.store.get(found) for name, found in graph.arrays.items()}
        module = module_of(torch, graph, arrays).cuda()
        feeds = {name: feeds[name] for name in graph.inputs}
        expected = {name: expected[name] for name in graph.outputs}
    return run_baseline(
        torch, module, feeds, expected, work.case.tolerance, way=work.case.way,
        tf32=work.model.product == "tf32", seconds=work.seconds,
        several_sets=bool(work.model.product),
    )  # fmt: skip


_KINDS: Mapping[str, Callable[[_Work], dict[str, Any]]] = {
    "machine": _machine, "program": _program, "probe": _probe, "torch": _torch,
    "sanitizer": _program,
}  # fmt: skip
"""The function that runs a case, by kind of case.

A sanitizer's case runs a program, in a process that the sanitizer starts.
"""

"""Check and time the kit's models in PyTorch: eagerly, in a CUDA graph, and compiled."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rammer_mlir.benchmarks.gpu.kit.cases import Tolerance
from rammer_mlir.benchmarks.gpu.kit.measure import (
    excess_of,
    rounds_of_graph,
    sets_beyond_caches,
    time_batches,
    wall_seconds,
)
from rammer_mlir.benchmarks.gpu.kit.store import Array
from rammer_mlir.benchmarks.gpu.kit.torch_graph import Torch
from rammer_mlir.errors import MissingPackageError

_WARM_UP = 3


def open_torch() -> Any:
    """Import PyTorch, check that it has a GPU, and return the package.

    Raises:
        MissingPackageError: if PyTorch is not installed or has no GPU.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingPackageError(
            "a baseline needs PyTorch: expected it installed, found none", name="torch"
        )
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise MissingPackageError(
            "a baseline needs PyTorch with CUDA and a GPU: expected both, found "
            f"PyTorch {torch.__version__} without", name="torch",
        )  # fmt: skip
    return torch


@dataclass(frozen=True)
class _Prepared:
    """Functions that run a module of PyTorch eagerly, in a CUDA graph or compiled.

    Attributes:
        single: runs the module once, on the first copy of the inputs, and returns the outputs.
        many: runs the module ``runs`` times, cycling through all copies of the inputs.
        runs: number of runs in a call of ``many``.
    """

    single: Callable[[], Sequence[Any]]
    many: Callable[[], object]
    runs: int


def run_baseline(
    torch: Torch,
    module: Callable[..., Sequence[Any]],
    feeds: Mapping[str, Array],
    expected: Mapping[str, Array],
    tolerance: Tolerance,
    *,
    way: str,
    tf32: bool,
    seconds: float,
    several_sets: bool,
) -> dict[str, Any]:
    """Check the outputs of a PyTorch module, and time its runs on the GPU.

    Args:
        torch: the package, with a GPU.
        module: maps inputs, in the order of ``feeds``, to outputs, in the order of ``expected``;
            its weights are on the device.
        feeds: inputs by name.
        expected: expected outputs by name.
        tolerance: tolerated error of the outputs.
        way: how PyTorch runs the module, an element of ``BASELINES``.
        tf32: whether products of f32 round their factors to tf32.
        seconds: duration of the timing.
        several_sets: whether runs cycle through copies of the inputs, so that inputs are read from
            device memory instead of a cache.

    Returns:
        A dictionary:
        - ``excess``: the largest error of an element divided by its tolerance;
        - ``sets``: the number of copies of the inputs;
        - ``device``: seconds of a run by the device's clock, as a dictionary of ``summary_of``;
        - ``wall``: seconds of a run by the clock of the CPU, as a dictionary of ``summary_of``.

    Raises:
        WrongOutputs: if the error of an output exceeds its tolerance.
    """
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    count = sets_beyond_caches(feeds) if several_sets else 1
    sets = [
        [torch.from_numpy(array.copy()).cuda() for array in feeds.values()] for _ in range(count)
    ]
    with torch.no_grad():
        prepared = _WAYS[way](torch, module, sets)
        for _ in range(_WARM_UP - 1):
            prepared.single()
        outputs = prepared.single()
        torch.cuda.synchronize()
        found = dict(zip(expected, (o.cpu().numpy() for o in outputs), strict=True))
        return {
            "excess": excess_of(expected, found, tolerance, f"PyTorch, {way},"),
            "sets": count,
            "device": _device_seconds(torch, prepared.many, seconds / 2, prepared.runs),
            "wall": wall_seconds(prepared.single, torch.cuda.synchronize, seconds / 2),
        }


Module = Callable[..., Sequence[Any]]
Sets = Sequence[Sequence[Any]]


def _eager(torch: Torch, module: Module, sets: Sets) -> _Prepared:
    del torch

    def many() -> None:
        for inputs in sets:
            module(*inputs)

    return _Prepared(lambda: module(*sets[0]), many, len(sets))


def _compiled(torch: Torch, module: Module, sets: Sets) -> _Prepared:
    return _eager(torch, torch.compile(module, mode="reduce-overhead"), sets)


def _graph(torch: Torch, module: Module, sets: Sets) -> _Prepared:
    """Capture two CUDA graphs of a module, and return functions that replay them.

    The function ``single`` replays a graph of one run. The function ``many`` replays a graph of so
    many runs that the cost of launching the graph is negligible.
    """
    one, outputs = _capture(torch, module, sets[:1])
    once, _ = _capture(torch, module, sets)
    rounds = rounds_of_graph(_device_seconds(torch, once.replay, 0.0, 1)["median"])
    many, _ = _capture(torch, module, [*sets] * rounds)

    def single() -> Sequence[Any]:
        one.replay()
        return outputs

    return _Prepared(single, many.replay, rounds * len(sets))


def _capture(torch: Torch, module: Module, sets: Sets) -> tuple[Any, Sequence[Any]]:
    """Capture a CUDA graph with one run of ``module`` for each element of ``sets``.

    An element of ``sets`` has the inputs of its run. Return the graph, and the outputs of the last
    run.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries allocate their workspaces before the capture
        for _ in range(_WARM_UP):
            module(*sets[0])
    torch.cuda.current_stream().wait_stream(side)
    captured, outputs = torch.cuda.CUDAGraph(), list[Any]()
    with torch.cuda.graph(captured):
        for inputs in sets:
            outputs = list(module(*inputs))
    return captured, outputs


_WAYS = {"eager": _eager, "graph": _graph, "compiled": _compiled}


def _device_seconds(
    torch: Torch, run: Callable[[], object], budget: float, runs_each: int
) -> dict[str, Any]:
    """Time batches of calls of ``run`` by events on PyTorch's stream.

    A call runs the module ``runs_each`` times; ``budget`` is the duration of the timing in seconds.
    Return a dictionary of ``summary_of`` with the seconds of a run of the module.
    """

    def batch(calls: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    batch(1)
    return time_batches(batch, budget, runs_each)

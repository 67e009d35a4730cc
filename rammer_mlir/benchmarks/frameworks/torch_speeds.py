"""Compare the latencies of networks from ONNX, ``torch.export`` and ``torch.compile``.

Usage: python -m rammer_mlir.benchmarks.frameworks.torch_speeds [NAME ...] [--small]

A line is printed for each network. For each of the three front ends, the line has
- the median latency in milliseconds;
- the latency divided by the latency of the model that was imported from ONNX;
- the largest difference from PyTorch's results, divided by the largest magnitude of these results.

The measurement alternates between the front ends. A function that ``torch.compile`` returns spends
time in PyTorch before it calls the back end (guards, collection of parameters). The line ends with
the median of this time, and with the latency ratio of ``torch.compile`` without this time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import rammer_mlir
import rammer_mlir.pytorch
from rammer_mlir.benchmarks.frameworks.torch_networks import NAMES, network

ROUNDS, RUNS = 15, 5

COMPILED = "torch.compile"


class TimedBackend:
    """The back end ``rammer`` of ``torch.compile`` with a timer.

    The attribute ``seconds`` is the total run time of all graphs that the back end compiled.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, graph: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
        """Compile a graph as ``rammer_mlir.pytorch.rammer`` does; return a function that runs it.

        Each call of the returned function adds its run time to ``seconds``.
        """
        runs = rammer_mlir.pytorch.rammer(graph, inputs, **options)

        def run(*arguments: Any) -> Any:
            begin = time.perf_counter()
            results = runs(*arguments)
            self.seconds += time.perf_counter() - begin
            return results

        return run


def ways(
    module: torch.nn.Module, arguments: tuple[Any, ...], backend: TimedBackend
) -> dict[str, Callable[[], Any]]:
    """Compile a network with each front end; return functions that run it on ``arguments``.

    The keys of the result are the front ends: "onnx", "torch.export" and "torch.compile". Only
    "torch.compile" uses ``backend``.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module, arguments, path, dynamo=True, verbose=False)
        by_onnx = rammer_mlir.compile(path)
    arrays = {
        name: value.numpy() for name, value in zip(by_onnx.input_names, arguments, strict=True)
    }
    by_export = rammer_mlir.pytorch.compile(module, arguments)
    torch._dynamo.config.allow_rnn = True
    by_compile = torch.compile(module, backend=backend, options={"strict": True}, fullgraph=True)
    return {
        "onnx": lambda: list(by_onnx.run(arrays).values()),
        "torch.export": lambda: by_export(*arguments),
        COMPILED: lambda: by_compile(*arguments),
    }


def medians(
    runs: Mapping[str, Callable[[], Any]], backend: TimedBackend
) -> tuple[dict[str, float], float]:
    """Time functions alternately, and return median seconds.

    Returns:
        The median seconds of a call of each function, by the function's name; and the median
        seconds that a call of the ``torch.compile`` function spends outside of ``backend``.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    outside: list[float] = []
    for _ in range(ROUNDS):
        for name, run in runs.items():
            backend.seconds, begin = 0.0, time.perf_counter()
            for _ in range(RUNS):
                run()
            spent = time.perf_counter() - begin
            seconds[name].append(spent / RUNS)
            if name == COMPILED:
                outside.append((spent - backend.seconds) / RUNS)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    return found, statistics.median(outside)


def difference(found: object, expected: object) -> float:
    """Return the largest relative error of the tensors in ``found`` against ``expected``.

    Both arguments are nested structures with the same number of tensors. The error of a tensor is
    its largest absolute difference, divided by the largest magnitude of the expected tensor.
    """
    leaves = torch.utils._pytree.tree_leaves
    pairs = zip(leaves(found), leaves(expected), strict=True)
    return max(
        float((torch.as_tensor(one) - other).abs().max() / other.abs().max())
        for one, other in pairs
    )


def main() -> None:
    """Measure the latencies of the networks, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--small", action="store_true", help="small sizes, to try it")
    given = parser.parse_args()
    for name in given.names:
        with torch.no_grad():
            module, arguments = network(name, small=given.small)
            expected = module(*arguments)
            backend = TimedBackend()
            runs = ways(module, arguments, backend)
            errors = {way: difference(run(), expected) for way, run in runs.items()}
            found, outside = medians(runs, backend)
        parts = [
            f"{way} {seconds * 1e3:.3f} ms ({seconds / found['onnx']:.2f}, error {errors[way]:.1e})"
            for way, seconds in found.items()
        ]
        ratio = (found[COMPILED] - outside) / found["onnx"]
        parts.append(f"PyTorch before the back end {outside * 1e3:.3f} ms (without it {ratio:.2f})")
        print(f"{name}: {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()

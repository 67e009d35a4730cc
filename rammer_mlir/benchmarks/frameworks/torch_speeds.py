"""Latencies of networks imported from ONNX, from ``torch.export`` and by ``torch.compile``.

Usage: python -m rammer_mlir.benchmarks.frameworks.torch_speeds [NAME ...] [--small]

Each printed line has the median latency of each way in milliseconds, its ratio to that of the
import from ONNX, and the largest difference from PyTorch's own results, relative to their largest
value. The three ways take turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import rammer_mlir
import rammer_mlir.pytorch
from rammer_mlir.benchmarks.frameworks.torch_networks import NAMES, network

ROUNDS, RUNS = 15, 5


def ways(module: torch.nn.Module, arguments: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """Return functions that run a network on its arguments, by the name of a front end.

    The front ends are "onnx", "torch.export" and "torch.compile".
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
    by_compile = torch.compile(
        module, backend=rammer_mlir.pytorch.rammer, options={"strict": True}, fullgraph=True
    )
    return {
        "onnx": lambda: list(by_onnx.run(arrays).values()),
        "torch.export": lambda: by_export(*arguments),
        "torch.compile": lambda: by_compile(*arguments),
    }


def medians(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median seconds of each function; the functions take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin = time.perf_counter()
            for _ in range(RUNS):
                run()
            seconds[name].append((time.perf_counter() - begin) / RUNS)
    return {name: statistics.median(found) for name, found in seconds.items()}


def difference(found: object, expected: object) -> float:
    """Return the largest difference of two results, over the largest magnitude of ``expected``.

    A result may be a nested structure of tensors; each tensor has its own largest magnitude.
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
            runs = ways(module, arguments)
            errors = {way: difference(run(), expected) for way, run in runs.items()}
            found = medians(runs)
        parts = [
            f"{way} {seconds * 1e3:.3f} ms ({seconds / found['onnx']:.2f}, error {errors[way]:.1e})"
            for way, seconds in found.items()
        ]
        print(f"{name}: {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()

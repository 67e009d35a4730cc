"""Compile a PyTorch network by one of this compiler's front ends for PyTorch, and time its runs.

The front ends take the network from ONNX, ``torch.export`` or ``torch.compile``. Each network is
compiled and timed in a separate process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import rammer_mlir
import rammer_mlir.pytorch
from rammer_mlir.benchmarks.frameworks.torch_networks import network

RUNS = 5
"""Number of timed runs of a process in a round."""

ONNX, EXPORT, COMPILE = WAYS = ("onnx", "torch.export", "torch.compile")
"""The names of the front ends."""


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


class CompiledNetwork:
    """A network that a front end compiled, with the arguments of the timed runs.

    The object is a ``Contender``. It is made and called in a separate process, that of a ``Lane``.
    """

    def __init__(self, way: str, name: str, *, small: bool, model: Path, threads: int) -> None:
        """Compile a network.

        Args:
            way: the front end, one of ``WAYS``.
            name: the network, one of ``NAMES``.
            small: whether to take the network's reduced sizes.
            model: the same network as an ONNX file.
            threads: number of vEUs.
        """
        torch.set_grad_enabled(False)
        self._module, self._arguments = network(name, small=small)
        self._backend = TimedBackend()
        compiled = {ONNX: self._by_onnx, EXPORT: self._by_export, COMPILE: self._by_compile}
        self._call = compiled[way](model, threads)

    def _by_onnx(self, model: Path, threads: int) -> Callable[[], object]:
        made = rammer_mlir.compile(model, num_veus=threads)
        named = zip(made.input_names, self._arguments, strict=True)
        arrays = {name: value.numpy() for name, value in named}
        return lambda: list(made.run(arrays).values())

    def _by_export(self, _: Path, threads: int) -> Callable[[], object]:
        made = rammer_mlir.pytorch.compile(self._module, self._arguments, num_veus=threads)
        return lambda: made(*self._arguments)

    def _by_compile(self, _: Path, threads: int) -> Callable[[], object]:
        torch._dynamo.config.allow_rnn = True
        options = {
            "strict": True, "num_veus": threads,
            "guard_filter_fn": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe,
        }  # fmt: skip
        made = torch.compile(self._module, backend=self._backend, options=options, fullgraph=True)
        return lambda: made(*self._arguments)

    def run(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Run once on the network's arguments; return no outputs."""
        self._call()
        return {}

    def seconds(self) -> list[tuple[float, float]]:
        """Time ``RUNS`` runs after an untimed run; return a pair of numbers for each timed run.

        The first number is the seconds of the run. The second number is the part of these seconds
        that ``torch.compile`` spends outside of the back end.
        """
        self._call()
        found: list[tuple[float, float]] = []
        for _ in range(RUNS):
            self._backend.seconds, begin = 0.0, time.perf_counter()
            self._call()
            spent = time.perf_counter() - begin
            found.append((spent, spent - self._backend.seconds))
        return found

    def error(self) -> float:
        """Return the largest relative error of the results against those of PyTorch itself.

        The error of a tensor is its largest absolute difference, divided by the largest magnitude
        of the expected tensor.
        """
        leaves = torch.utils._pytree.tree_leaves
        pairs = zip(leaves(self._call()), leaves(self._module(*self._arguments)), strict=True)
        return max(
            float((torch.as_tensor(one) - other).abs().max() / other.abs().max())
            for one, other in pairs
        )

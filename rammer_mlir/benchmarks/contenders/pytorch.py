"""Run a model with PyTorch, translated by ``onnx2torch``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contenders.protocol import required


class PyTorch:
    """A PyTorch module in inference mode.

    PyTorch and ``onnx2torch`` are not in ``rammer-mlir[bench]``: on PyPI, PyTorch for Linux
    includes gigabytes of CUDA, and ``onnx2torch`` supports only some of ONNX's operators.
    """

    def __init__(self, model: Path, threads: int) -> None:
        """Translate an ONNX file; raise TargetError if the packages are not installed."""
        self._torch = required("torch", "torch onnx2torch")
        converter = required("onnx2torch", "onnx2torch")
        self._torch.set_num_threads(threads)
        graph = onnx.load(model).graph
        constants = {tensor.name for tensor in graph.initializer}
        self._inputs = [info.name for info in graph.input if info.name not in constants]
        self._outputs = [info.name for info in graph.output]
        self._module = converter.convert(str(model)).eval()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the module on ``feeds``, inputs by name; return the outputs by name."""
        with self._torch.inference_mode():
            found = self._module(*(self._torch.from_numpy(feeds[name]) for name in self._inputs))
        values = found if isinstance(found, (tuple, list)) else (found,)
        return {name: v.numpy() for name, v in zip(self._outputs, values, strict=True)}

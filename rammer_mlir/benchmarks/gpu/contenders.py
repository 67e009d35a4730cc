"""Run an ONNX model in other installed runtimes on an NVIDIA GPU."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping

import onnx

from rammer_mlir.benchmarks.comparison import Array

Run = Callable[[], object]
"""A function that runs the model once on data in device memory, and waits for the run's end."""


def rivals(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Iterator[tuple[str, Run]]:
    """Yield each installed contender: its name, and a function that runs the model on ``feeds``.

    The inputs ``feeds`` are given by name. A contender that cannot open the model is left out, and
    a message is printed.
    """
    for name, make in _all():
        try:
            yield name, make(model, feeds)
        except Exception as error:  # any failure of a contender must not end the table
            print(f"  {name}: left out, {type(error).__name__}: {str(error).splitlines()[:1]}")


def missing() -> list[str]:
    """Return the names of supported contenders that are not installed."""
    found = {name for name, _ in _all()}
    every = ("onnxruntime CUDA", "TensorRT", "PyTorch eager", "PyTorch compiled, CUDA graphs")
    return [name for name in every if name not in found]


def _all() -> Iterator[tuple[str, Callable[[onnx.ModelProto, Mapping[str, Array]], Run]]]:
    providers = _providers()
    if "CUDAExecutionProvider" in providers:
        yield "onnxruntime CUDA", lambda m, f: _onnxruntime(m, f, "CUDAExecutionProvider")
    if "TensorrtExecutionProvider" in providers and importlib.util.find_spec("tensorrt"):
        yield "TensorRT", lambda m, f: _onnxruntime(m, f, "TensorrtExecutionProvider")
    if importlib.util.find_spec("torch") and importlib.util.find_spec("onnx2torch"):
        yield "PyTorch eager", lambda m, f: _torch(m, f, compiled=False)
        yield "PyTorch compiled, CUDA graphs", lambda m, f: _torch(m, f, compiled=True)


def _providers() -> list[str]:
    if importlib.util.find_spec("onnxruntime") is None:
        return []
    return list(importlib.import_module("onnxruntime").get_available_providers())


def _onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Array], provider: str) -> Run:
    ort = importlib.import_module("onnxruntime")
    session = ort.InferenceSession(model.SerializeToString(), providers=[provider])
    binding = session.io_binding()
    kept = {name: ort.OrtValue.ortvalue_from_numpy(v, "cuda", 0) for name, v in feeds.items()}
    for name, value in kept.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name, "cuda")

    def run() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return run


def _torch(model: onnx.ModelProto, feeds: Mapping[str, Array], *, compiled: bool) -> Run:
    torch = importlib.import_module("torch")
    module = importlib.import_module("onnx2torch").convert(model).eval().cuda()
    function = torch.compile(module, mode="reduce-overhead") if compiled else module
    values = [torch.from_numpy(feeds[i.name]).cuda() for i in model.graph.input if i.name in feeds]

    def run() -> None:
        with torch.no_grad():
            function(*values)
        torch.cuda.synchronize()

    for _ in range(3):  # compiles, then records its graph
        run()
    return run

"""Run a model with IREE, compiled for this processor."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contenders.protocol import required
from rammer_mlir.errors import TargetError

_OPSET = "17"
"""The oldest opset that IREE's importer supports; older models are converted to it."""

_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
)


class Iree:
    """A model compiled by IREE; code and weights are files in the folder of the ONNX file."""

    def __init__(self, model: Path, threads: int) -> None:
        """Compile an ONNX file unless its folder has the compiled code already, and load the code.

        Raises:
            TargetError: if IREE is not installed, or its tools reject the model.
        """
        required("iree.compiler")
        runtime = required("iree.runtime")
        code, weights = model.with_suffix(".vmfb"), model.with_suffix(".irpa")
        if not code.exists():
            _compile(model, code, weights)
        self._open(runtime, code, weights, threads)
        graph = onnx.load(model, load_external_data=False).graph
        constants = {tensor.name for tensor in graph.initializer}
        self._inputs = [info.name for info in graph.input if info.name not in constants]
        self._outputs = [info.name for info in graph.output]

    def _open(self, runtime: ModuleType, code: Path, weights: Path, threads: int) -> None:
        # IREE's flags are global, so a process can have only one number of threads.
        runtime.flags.parse_flags(f"--task_topology_max_group_count={threads}")
        device = runtime.get_device("local-sync" if threads == 1 else "local-task")
        instance = runtime.VmInstance()
        modules = [runtime.create_hal_module(instance, device)]
        if weights.exists():
            index = runtime.ParameterIndex()
            index.load(str(weights))
            provider = index.create_provider("model")
            modules.insert(0, runtime.create_io_parameters_module(instance, provider))
        module = runtime.VmModule.mmap(instance, str(code))
        context = runtime.VmContext(instance, [*modules, module])
        (name,) = (n for n in module.function_names if not n.startswith("__") and "$" not in n)
        function = module.lookup_function(name)
        self._invoke = runtime.FunctionInvoker(context, device, function)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run IREE's module on ``feeds``, inputs by name; return the outputs by name."""
        found = self._invoke(*(feeds[name] for name in self._inputs))
        values = found if isinstance(found, (tuple, list)) else (found,)
        arrays = (np.asarray(value.to_host()) for value in values)
        return dict(zip(self._outputs, arrays, strict=True))


def _compile(model: Path, code: Path, weights: Path) -> None:
    """Compile the ONNX file ``model``; write the files ``code`` and ``weights``.

    The code is written to a temporary file, which is renamed to ``code`` when it is complete.

    Raises:
        TargetError: if a tool of IREE fails.
    """
    text, unfinished = model.with_suffix(".mlir"), code.with_suffix(".part")
    externalize = ("--externalize-params", "--save-params-to", str(weights))
    _call("iree.compiler.tools.import_onnx", model, "-o", text, "--opset-version", _OPSET,
          *externalize)  # fmt: skip
    _call("iree.compiler.tools.scripts.iree_compile", text, *_FLAGS, "-o", unfinished)
    unfinished.rename(code)


def _call(module: str, *arguments: str | Path) -> None:
    """Run the Python module ``module`` of IREE with command-line ``arguments``.

    Raises:
        TargetError: if the module fails; the message has the first line of the module's output that
            reports an error.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "rror" in line] or ["no message"]
        model = Path(arguments[0])
        raise TargetError(
            f"{module.rpartition('.')[2]}: expected it to take '{model.name}', found status "
            f"{done.returncode}, '{lines[0].replace(f'{model.parent}/', '')[:300]}'"
        )

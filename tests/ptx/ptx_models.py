"""Models that are compiled to PTX and executed by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from ptx_interpreter.driver import PtxDriver

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.gpu.executable import GpuExecutable

Feeds = Mapping[str, NDArray[Any]]


class Interpreted:
    """A model compiled to PTX for a GPU, which runs on the interpreter.

    Tests may change the text of the PTX before it runs.
    """

    def __init__(
        self, model: onnx.ModelProto, target: str = "nvvm:sm_80", num_veus: int = 3, **options: Any
    ) -> None:
        """Compile ``model`` to PTX; ``options`` are options of compilation."""
        checked = check_options(
            target, policy=options.pop("policy", "wavefront"), num_veus=num_veus, **options
        )
        compilation = Compilation(import_model(model), checked)
        self.model = model
        self.ptx = compilation.emit("ptx").decode()
        image = compilation.image
        assert isinstance(image, GpuImage)
        self.image = image

    def executable(self, change: Callable[[str], str] = lambda text: text) -> GpuExecutable:
        """Return the program on a new interpreter, after applying ``change`` to its PTX."""
        code = change(self.ptx).encode()
        return GpuExecutable(self.image, code, lambda: PtxDriver(self.image.chip))


def check_runs(model: onnx.ModelProto, feeds: Feeds, *, runs: int = 2, **options: Any) -> str:
    """Run a model ``runs`` times on the interpreter, and compare with ONNX Runtime; return the PTX.

    Step counters continue from one run to the next.
    """
    interpreted = Interpreted(model, **options)
    executable = interpreted.executable()
    expected = OnnxRuntime(model).run(feeds)
    for _ in range(runs):
        found = {name: np.asarray(array) for name, array in executable.run(feeds).items()}
        comparison = compare(expected, found)
        assert comparison.ok, str(comparison)
    return interpreted.ptx

"""Task graphs of benchmark models as they are compiled for a GPU."""

from __future__ import annotations

from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.scheduling.graph import TaskGraph

TABLE_1 = (
    "resnext29_16x64d", "nasnet_a_6_768", "alexnet",
    "deepspeech2_unrolled", "lstm_tc_unrolled", "seq2seq_unrolled",
)  # fmt: skip
"""RAMMER's benchmark models, the recurrent ones in the paper's form: a graph of all cells."""


def model_graph(name: str, target: str, batch: int = 1, scale: Scale = "full") -> TaskGraph:
    """Compile a benchmark model up to its tiled rOperators on buffers, as `wavefront` gets them.

    Raises:
        OptionError: if there is no such model or target.
    """
    options = check_options(target, policy="wavefront", num_veus=None)
    return Compilation.of_model(build(name, batch, scale), options).task_graph()

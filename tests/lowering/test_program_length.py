"""Tests that more cells of a recurrent network do not add code to a GPU program.

They only add to its task table.
"""

from __future__ import annotations

from functools import cache

import onnx
import pytest

from rammer_mlir.benchmarks.models.builder import GraphBuilder
from rammer_mlir.benchmarks.models.recurrent import StepSequence, draw_weights, make_layer
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.programs.gpu_image import GpuImage


def lstm(length: int, layers: int, hidden: int, *, unrolled: bool) -> onnx.ModelProto:
    """Return a model of LSTM layers: one operator for each layer, or unrolled into cells.

    ``length`` is the number of cells of a layer, ``hidden`` the size of its state.
    """
    graph = GraphBuilder("lstm", seed=length)
    steps = StepSequence(graph, graph.input("x", [length, 1, hidden]))
    for layer in range(layers):
        with graph.scope(f"layer{layer}"):
            drawn = draw_weights(graph, hidden, hidden)
            steps, _ = make_layer(graph, drawn, unrolled).sequence(steps)
    graph.output(steps.steps[-1], "h")
    return graph.finish()


@cache
def code(
    length: int, layers: int, hidden: int, num_veus: int | None, *, unrolled: bool
) -> tuple[bytes, int]:
    """Return the PTX of a model of LSTM layers, and the number of words of its task table.

    The arguments, except ``num_veus``, are those of ``lstm``.
    """
    model = lstm(length, layers, hidden, unrolled=unrolled)
    options = check_options("nvvm:sm_90", policy="wavefront", num_veus=num_veus)
    compilation = Compilation.of_model(model, options)
    text, image = compilation.emit("ptx"), compilation.image
    assert isinstance(image, GpuImage)
    return text, image.tables.shape[1]


@pytest.mark.parametrize("unrolled", [False, True], ids=["operator", "unrolled"])
@pytest.mark.parametrize(
    ("lengths", "layers", "hidden", "num_veus"),
    [
        ((10, 37, 100), 1, 16, 4),
        ((10, 50), 2, 128, None),
        pytest.param((10, 100, 1000), 1, 256, None, marks=pytest.mark.slow),
        pytest.param((10, 100), 3, 256, None, marks=pytest.mark.slow),
    ],
)
def test_cells_add_to_the_task_table_only(
    lengths: tuple[int, ...], layers: int, hidden: int, num_veus: int | None, unrolled: bool
) -> None:
    """The PTX of networks of different lengths is the same, byte by byte; the task table grows.

    Sizes and places that differ between rTasks are in the task table, too.
    """
    shortest, *others = lengths
    text, words = code(shortest, layers, hidden, num_veus, unrolled=unrolled)
    for length in others:
        found, more = code(length, layers, hidden, num_veus, unrolled=unrolled)
        assert found == text
        assert more > words * length / shortest / 2


def predicted(layers: int) -> float:
    """Return the predicted seconds of LSTM layers of 40 cells, with one operator for each layer."""
    model = lstm(40, layers, 64, unrolled=False)
    compilation = Compilation.of_model(
        model, check_options("nvvm:sm_90", policy="wavefront", num_veus=None)
    )
    compilation.emit("program")
    return read_plan(compilation.module).plan.predicted_seconds


def test_layers_overlap() -> None:
    """Four layers overlap: they take less than 2.5 times as long as one.

    A layer begins when the layer below has computed eight of its forty steps.
    """
    one = predicted(1)
    assert one < predicted(4) < 2.5 * one

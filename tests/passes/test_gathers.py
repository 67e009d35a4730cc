"""Tests that a gather is fused with the operations that compute its source.

An example is softmax cross-entropy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders import onnx_runtime
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.gathers import gathers_of
from rammer_mlir.passes.ir.structured import Structured, is_generic
from rammer_mlir.passes.tiling.space import analyze

ROWS, CLASSES = 1009, 300
BOUNDARIES = ("inputs=2", "inputs=0", "cost")


def model(nodes: list[onnx.NodeProto], labels: tuple[int, ...], y: tuple[int, ...]) -> bytes:
    """Return a serialized model of given nodes.

    The model has logits ``x`` and int64 ``labels`` as inputs, and ``y`` as output. The arguments
    ``labels`` and ``y`` are shapes.
    """
    graph = helper.make_graph(
        nodes,
        "loss",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (ROWS, CLASSES)),
            helper.make_tensor_value_info("labels", TensorProto.INT64, labels),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


CROSS_ENTROPY = model(
    [helper.make_node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["y"], reduction="none")],
    (ROWS,),
    (ROWS,),
)
BY_ELEMENTS = model(
    [
        helper.make_node("LogSoftmax", ["x"], ["logs"], axis=-1),
        helper.make_node("GatherElements", ["logs", "labels"], ["found"], axis=1),
        helper.make_node("Neg", ["found"], ["y"]),
    ],
    (ROWS, 1),
    (ROWS, 1),
)
BY_COLUMNS = model(
    [
        helper.make_node("LogSoftmax", ["x"], ["logs"], axis=-1),
        helper.make_node("Gather", ["logs", "labels"], ["found"], axis=1),
        helper.make_node("Neg", ["found"], ["y"]),
    ],
    (5,),
    (ROWS, 5),
)
BY_ROWS = model(
    [
        helper.make_node("Exp", ["x"], ["powers"]),
        helper.make_node("Gather", ["powers", "labels"], ["y"], axis=0),
    ],
    (9,),
    (9, CLASSES),
)
FUSED = {"cross entropy": CROSS_ENTROPY, "elements": BY_ELEMENTS, "columns": BY_COLUMNS}
LABELS: Mapping[str, tuple[int, ...]] = {
    "cross entropy": (ROWS,), "elements": (ROWS, 1), "columns": (5,), "rows": (9,)
}  # fmt: skip


def feeds(name: str) -> dict[str, np.ndarray]:
    """Return random logits and labels for the case ``name``, by input name."""
    draw = np.random.default_rng(1)
    limit = ROWS if name == "rows" else CLASSES
    labels = draw.integers(0, limit, LABELS[name])
    return {"x": draw.standard_normal((ROWS, CLASSES), np.float32), "labels": labels}


def expected(source: bytes, given: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return the outputs that ONNX Runtime computes, by name."""
    return onnx_runtime.run(onnx.load_from_string(source), given)


def num_operators(exe: rammer_mlir.Executable) -> int:
    """Return the number of rOperators of a program."""
    return len(exe.image.program.operators)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", FUSED)
def test_a_loss_is_one_operator(name: str, boundary: str) -> None:
    given = feeds(name)
    with rammer_mlir.compile(FUSED[name], boundary=boundary, num_veus=3, cache=False) as exe:
        assert num_operators(exe) == 1
        assert exe.image.proof.kernels[0].num_rtasks > 1
        result = compare(expected(FUSED[name], given), exe.run(given))
    assert result.ok, str(result)


@pytest.mark.parametrize("name", FUSED)
def test_by_default_a_gather_begins_an_operator(name: str) -> None:
    with rammer_mlir.compile(FUSED[name], num_veus=3, cache=False) as exe:
        assert num_operators(exe) == 2


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_rows_that_data_chooses(boundary: str) -> None:
    """A gather of rows that is fused with the producer of the rows is tiled along columns only.

    The row indices are data, so that any rTask may read any row.
    """
    given = feeds("rows")
    with rammer_mlir.compile(BY_ROWS, boundary=boundary, num_veus=3, cache=False) as exe:
        assert num_operators(exe) == 1 or boundary == "cost"
        result = compare(expected(BY_ROWS, given), exe.run(given))
    assert result.ok, str(result)


def test_a_gathered_dimension_is_not_cut() -> None:
    compilation = Compilation.of_model(onnx.load_from_string(BY_ROWS), check_options(num_veus=1))
    compilation.run_to("linalg")
    with compilation.module.context:
        operations = list(entry_block(compilation.module).operations)
        generics = [Structured(op) for op in operations if is_generic(op)]
        space = analyze(generics)
        assert space is not None
        assert [tile_class.extent for tile_class in space.classes] == [CLASSES]
        assert [gather.loops for gather in gathers_of(generics[-1])] == [(None, 1)]
        assert analyze(generics, gathers=False) is None


@pytest.mark.parametrize("name", FUSED)
def test_on_a_gpu(name: str) -> None:
    """On an emulated GPU, threads gather values that other threads of the block computed.

    The emulator finds no data race.
    """
    given = feeds(name)
    with rammer_mlir.compile(
        FUSED[name], target="nvvm:sm_90", emulate=True, check=True, boundary="inputs=2", num_veus=2
    ) as exe:  # fmt: skip
        result = compare(expected(FUSED[name], given), exe.run(given))
    assert result.ok, str(result)

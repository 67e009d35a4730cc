"""Tests that models have as many parameters and operations as counts by hand and papers say."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.benchmarks.models import build
from rammer_mlir.benchmarks.models.counts import count


def model_of(op_type: str, shapes: dict[str, list[int]], weights: dict[str, list[int]],
             out: list[int], **attributes: Any) -> onnx.ModelProto:  # fmt: skip
    values = [numpy_helper.from_array(np.ones(shape, np.float32), name)
              for name, shape in weights.items()]  # fmt: skip
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    node = helper.make_node(op_type, [*shapes, *weights], ["y"], **attributes)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, out)
    graph = helper.make_graph([node], "g", inputs, [output], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    ("model", "parameters", "flops"),
    [
        (model_of("Conv", {"x": [1, 6, 9, 9]}, {"w": [8, 3, 3, 3], "b": [8]}, [1, 8, 7, 7],
                  group=2), 216 + 8, 2 * 8 * 49 * 27),
        (model_of("ConvTranspose", {"x": [1, 4, 5, 5]}, {"w": [4, 6, 2, 2]}, [1, 6, 6, 6]),
         96, 2 * 100 * 24),
        (model_of("MatMul", {"x": [2, 5, 7]}, {"w": [7, 3]}, [2, 5, 3]), 21, 2 * 30 * 7),
        (model_of("Gemm", {"x": [7, 5]}, {"w": [7, 3]}, [5, 3], transA=1), 21, 2 * 15 * 7),
        (model_of("LSTM", {"x": [6, 2, 5]}, {"w": [1, 12, 5], "r": [1, 12, 3]}, [6, 1, 2, 3],
                  hidden_size=3), 96, 2 * 12 * (60 + 36)),
        (model_of("Relu", {"x": [4]}, {}, [4]), 0, 0),
    ],
    ids=["Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "Relu"],
)  # fmt: skip
def test_one_operator(model: onnx.ModelProto, parameters: int, flops: int) -> None:
    found = count(model)
    assert (found.parameters, found.weight_bytes, found.flops) == (
        parameters,
        4 * parameters,
        flops,
    )


def test_both_forms_of_a_recurrent_model_need_about_the_same() -> None:
    operators, cells = (count(build(name)) for name in ("lstm_tc", "lstm_tc_unrolled"))
    assert operators.flops == pytest.approx(cells.flops, rel=0.02)
    cell, classifier = 4 * 256 * (256 + 256), 256 * 10
    assert operators.flops == 2 * (10 * 100 * cell + classifier)


PAPERS = [
    # Parameters and multiply-adds, both in millions.
    ("transformer_4_layers", 4 * (4 * 256**2 + 2 * 256 * 1024) / 1e6, 64 * 3.146 + 8.4),
    ("squeezenet", 1.248 + 0.340, None),  # SqueezeNet 1.0, Table 1; and its four bypass filters
    ("mobilenet_v2", 3.4, 300),  # its paper's Table 4
    ("inception_v3", 23.8, 5720),  # torchvision's, without the auxiliary classifier
    ("randwire", 61.5, 7900),  # its paper's Table 2, regular regime, C = 154
    ("nasnet_a_6_4032", 88.9, 23800),  # its paper's Table 2
    ("nasnet_a_6_768", 3.3, None),  # its paper's Table 1
    ("resnext29_16x64d", 68.1, None),  # its paper's Table 7
    ("alexnet", 61.1, None),  # "One weird trick", as torchvision has it
    ("resnet18", 11.69, 1814),  # torchvision's
    ("resnet50", 25.56, 4089),  # torchvision's
    ("darknet53", 41.6, 18700 / 2),  # YOLOv3, Table 2, which counts additions too
    ("vgg19", 143.67, 19630),  # torchvision's
    ("faster_rcnn_resnet50_fpn", 41.76, None),  # torchvision's
]
CHEAP = {"transformer_4_layers", "resnet18", "squeezenet", "mobilenet_v2", "nasnet_a_6_768"}


@pytest.mark.parametrize(
    ("name", "parameters", "multiply_adds"),
    [pytest.param(*row, marks=[] if row[0] in CHEAP else [pytest.mark.slow]) for row in PAPERS],
)
def test_networks_have_their_papers_size(
    name: str, parameters: float, multiply_adds: float | None
) -> None:
    """Networks have the sizes that papers state, within a few percent.

    Papers count batch norms and random wiring in different ways.
    """
    found = count(build(name))
    assert found.parameters / 1e6 == pytest.approx(parameters, rel=0.06)
    if multiply_adds is not None:
        assert found.flops / 2e6 == pytest.approx(multiply_adds, rel=0.03)

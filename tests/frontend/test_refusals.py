"""Refusals of models name each reason once, with the number of nodes and the first nodes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest
from onnx import TensorProto, helper

import rammer_mlir
from rammer_mlir.errors import RammerError, UnsupportedError
from rammer_mlir.frontends.onnx import import_model


def model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str] = (4,),
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Return a model of given nodes of any domain, with input ``x`` and output ``y``.

    ``shape`` and ``kind`` are the shape and the element type of ``x``.
    """
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    opsets = [
        helper.make_opsetid(domain, version)
        for domain, version in (("", 17), ("ai.onnx.ml", 3), ("com.microsoft", 1), ("own", 1))
    ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def chain(operator: str, count: int, domain: str = "") -> list[onnx.NodeProto]:
    names = ["x", *(f"v{n}" for n in range(1, count)), "y"]
    return [
        helper.make_node(operator, [names[n]], [names[n + 1]], f"n{n}", domain=domain)
        for n in range(count)
    ]


def refusal(refused: onnx.ModelProto, error: type[RammerError] = UnsupportedError) -> str:
    """Check that import and compilation raise equal errors of one line; return their message."""
    with pytest.raises(error) as of_import:
        import_model(refused)
    with pytest.raises(error) as of_compile:
        rammer_mlir.compile(refused)
    assert str(of_import.value) == str(of_compile.value)
    assert "\n" not in str(of_import.value)
    return str(of_import.value)


def test_many_nodes_of_a_reason_are_counted() -> None:
    assert refusal(model(chain("RandomNormalLike", 300))) == (
        "not supported: 300 nodes, 'n0' (RandomNormalLike), 'n1' (RandomNormalLike), "
        "'n2' (RandomNormalLike) and 297 more: results are random; make the noise an input of "
        "the model"
    )


def test_each_reason_has_its_own_advice() -> None:
    nodes = [
        *chain("RandomUniformLike", 2),
        *chain("Gelu2", 2, "own"),
        *chain("FusedX", 1, "com.microsoft"),
    ]
    for number, node in enumerate(nodes):
        node.input[0], node.output[0] = f"v{number}" if number else "x", f"v{number + 1}"
        node.name = f"n{number}"
    nodes[-1].output[0] = "y"
    assert refusal(model(nodes)) == (
        "not supported: 2 nodes, 'n0' (RandomUniformLike), 'n1' (RandomUniformLike): results are "
        "random; make the noise an input of the model, 2 nodes, 'n2' (own.Gelu2), "
        "'n3' (own.Gelu2): not an operator of ONNX; export the model without it, or bring a "
        "function for it, 'n4' (com.microsoft.FusedX: not an operator of ONNX; give the original "
        "model, from before its optimization)"
    )


@pytest.mark.parametrize(
    ("operator", "advice"),
    [
        ("SVMClassifier", "write it as MatMul and the kernel's function"),
        ("CategoryMapper", "map keys to numbers outside of the model"),
        ("ZipMap", "export the model without it"),
    ],
)
def test_classical_operators_are_named_with_advice(operator: str, advice: str) -> None:
    nodes = chain(operator, 1, "ai.onnx.ml")
    if operator == "SVMClassifier":
        nodes[-1].output.append("scores")
    found = refusal(model(nodes, ["N"]))
    assert found.startswith(
        f"not supported: 'n0' (ai.onnx.ml.{operator}: not an operator on tensors alone; {advice}"
    )


@pytest.mark.parametrize(
    ("operator", "advice"),
    [
        ("RandomUniformLike", "make the noise an input of the model"),
    ],
)
def test_every_reason_says_what_to_do(operator: str, advice: str) -> None:
    nodes = [
        helper.make_node(operator, ["x"], ["v"], "n"),
        helper.make_node("F", ["v"], ["y"], "f", domain="own"),
    ]
    with pytest.raises(RammerError, match=advice):
        import_model(model(nodes))


def test_inputs_of_strings_are_counted() -> None:
    refused = model(chain("Identity", 1), kind=TensorProto.STRING)
    for name in "abc":
        refused.graph.input.append(helper.make_tensor_value_info(name, TensorProto.STRING, [1]))
    assert refusal(refused) == (
        "not supported: 4 values, 'x', 'a', 'b' and 1 more: holds strings: expected numbers; "
        "process text in front of the model, and give it numbers"
    )


@pytest.mark.parametrize("domain", ["own", "ai.onnx.ml", "com.microsoft"])
def test_nodes_are_refused_before_sizes_are_asked_for(domain: str) -> None:
    found = refusal(model(chain("ZipMap", 5, domain), ["batch", 4]))
    assert "5 nodes" in found and "batch" not in found

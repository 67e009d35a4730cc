"""Models that cannot be compiled are refused with one clear line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.errors import InputError, ModelError, RammerError, ShapeError, UnsupportedError
from rammer_mlir.frontends.onnx import import_model

FLOAT = TensorProto.FLOAT


def model(
    nodes: list[onnx.NodeProto],
    shape: list[int | str] | None = None,
    domain: str | None = None,
) -> onnx.ModelProto:
    """Return a model of given nodes with input ``x`` and output ``y``.

    Args:
        nodes: the nodes.
        shape: shape of ``x``, by default [2, 3].
        domain: another domain of operators that the model imports.
    """
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", FLOAT, [2, 3] if shape is None else shape)],
        [helper.make_tensor_value_info("y", FLOAT, ["rows", "columns"])],
    )
    opsets = [helper.make_opsetid("", 20)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


RELU = helper.make_node("Relu", ["x"], ["y"], name="relu")


def message(error: pytest.ExceptionInfo[RammerError]) -> str:
    """Return the error's message, which must be one line."""
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07"])
def test_what_is_not_a_model(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError) as error:
        import_model(path)
    assert "is not an ONNX model" in message(error) or "graph" in message(error)


def test_a_truncated_model(tmp_path: Path) -> None:
    content = model([RELU]).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError) as error:
        import_model(path)
    assert str(path) in message(error)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as error:
        import_model(tmp_path / "none.onnx")
    assert "cannot read" in message(error)


def test_missing_external_data(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    built = model([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")])
    built.graph.initializer.append(weights)
    path = tmp_path / "model.onnx"
    onnx.save(built, path, save_as_external_data=True, location="data.bin", size_threshold=0)
    (tmp_path / "data.bin").unlink()
    with pytest.raises(ModelError) as error:
        import_model(path)
    assert "external data" in message(error)


def test_all_foreign_operators_are_listed_at_once() -> None:
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="first", domain="com.example"),
        helper.make_node("Relu", ["a"], ["b"], name="fine"),
        helper.make_node("Bar", ["b"], ["y"], name="second", domain="com.example"),
    ]
    with pytest.raises(UnsupportedError) as error:
        import_model(model(nodes, domain="com.example"))
    text = message(error)
    assert "'first'" in text and "'second'" in text and "fine" not in text


def test_an_invalid_graph() -> None:
    with pytest.raises(ModelError) as error:
        import_model(model([helper.make_node("Relu", ["missing"], ["y"], name="relu")]))
    assert "missing" in message(error)


@pytest.mark.parametrize("shape", [["batch", 3], [None, 3]])
def test_an_open_dimension_needs_a_shape(shape: list[int | str]) -> None:
    with pytest.raises(ShapeError) as error:
        import_model(model([RELU], shape))
    assert "dims={" in message(error)
    imported = import_model(model([RELU], shape), shapes={"x": (5, 3)})
    assert imported.signature.outputs[0].shape == (5, 3)


@pytest.mark.parametrize(
    ("shapes", "part"),
    [
        ({"x": (2,)}, "expected 2 dimensions"),
        ({"x": (2, 4)}, "dimension 1 is 3"),
        ({"x": (-1, 3)}, "at least 0"),
        ({"z": (2, 3)}, "unknown input 'z'"),
    ],
)
def test_wrong_shapes(shapes: dict[str, tuple[int, ...]], part: str) -> None:
    with pytest.raises(ShapeError) as error:
        import_model(model([RELU], ["batch", 3]), shapes=shapes)
    assert part in message(error)


@pytest.mark.parametrize("batch", ["rows", 0])
def test_a_dimension_may_have_no_elements(batch: int | str) -> None:
    with rammer_mlir.compile(model([RELU], [batch, 3]), shapes={"x": (0, 3)}) as executable:
        assert executable(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_an_initializer_among_the_inputs_is_a_constant() -> None:
    """An initializer that is also listed as an input is a constant, not an input.

    Exporters list weights there; as inputs they could not be packed.
    """
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])])
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    proto.graph.initializer.append(numpy_helper.from_array(w, "w"))
    proto.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [2, 3]))
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    with rammer_mlir.compile(proto) as executable:
        np.testing.assert_array_equal(executable.run({"x": x})["y"], x + w)
        with pytest.raises(InputError, match="unknown input 'w': expected 'x' 2x3 float32"):
            executable.run({"x": x, "w": w})
    del proto.graph.initializer[:]  # what the documentation says to do
    with rammer_mlir.compile(proto) as executable:
        np.testing.assert_array_equal(executable.run({"x": x, "w": x})["y"], x + x)


def test_a_shape_that_depends_on_data() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"], name="indices"),
        helper.make_node("Cast", ["n"], ["y"], name="cast", to=FLOAT),
    ]
    with pytest.raises(RammerError) as error:
        import_model(model(nodes))
    assert "indices" in message(error)


def test_strings() -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [2])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [2])],
    )
    strings = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(UnsupportedError) as error:
        import_model(strings)
    assert message(error) == (
        "not supported: 'x' holds strings: expected numbers; process text in front of the model, "
        "and give it numbers"
    )


@pytest.mark.parametrize("kind", [TensorProto.COMPLEX64, TensorProto.COMPLEX128])
def test_element_types_without_arithmetic(kind: int) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "test",
        [helper.make_tensor_value_info("x", kind, [2])],
        [helper.make_tensor_value_info("y", kind, [2])],
    )
    narrow = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(UnsupportedError) as error:
        import_model(narrow)
    assert "expected a real number" in message(error)


def test_tensors_too_large_to_index() -> None:
    """An input with too many elements is refused before it is processed."""
    open_rows = model([RELU], ["n", 3])
    with pytest.raises(ShapeError) as error:
        import_model(open_rows, shapes={"x": (10**11, 3)})
    assert message(error) == (
        "'x': expected at most 2147483647 elements, found 300000000000 in 100000000000,3; "
        "give smaller shapes"
    )

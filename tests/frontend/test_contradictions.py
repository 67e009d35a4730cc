"""Tests that models that contradict themselves are refused in one line.

The line names the node or output.
"""

from __future__ import annotations

import cpu_runner
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rammer_mlir.errors import ModelWarning, RammerError
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.frontends.onnx.contradictions import inference_error


def parsed(graph: str, **constants: list[int]) -> onnx.ModelProto:
    """Return a model of opset 21, given its graph as text, and int64 initializers by name."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> test {graph}')
    for name, values in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    return model


def refusal(model: onnx.ModelProto, **shapes: tuple[int, ...]) -> str:
    """Import a model, which must be refused in one line; return the error's message.

    ``shapes`` are the shapes of inputs that the caller gives, by name.
    """
    with pytest.raises(RammerError) as error:
        import_model(model, shapes=shapes)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("graph", "part"),
    [
        ("(float[4] a, float[3] b) => (float[4] y) {y = Add(a, b)}", "'a' float[4], 'b' float[3]"),
        ("(float[4] a, int64[4] b) => (float[4] y) {y = Add(a, b)}", "'b' int64[4]"),
        ("(float[2,4] a, float[3,5] b) => (float[2,5] y) {y = MatMul(a, b)}", "'a' float[2,4]"),
        ("(float[3,4] a, float[2,3] b) => (float[3,7] y) {y = Concat<axis=1>(a, b)}", "found"),
        ("(float[4] a) => (float[4] y) {y = Cast<to=9999>(a)}", "valid type"),
        ('(float[3,4] a) => (float[3,4] y) {y = Einsum<equation="ij->ik">(a)}', "label"),
        ("(float[1,4,4] a) => (float[1,4,4] y) {y = Softmax<axis=7>(a)}", "[-3 , 2]"),
        ("(float[1,4,4] a) => (float[1,4,4] y) {y = Softmax<axis=-9>(a)}", "-9"),
        ("(float[4,4] a) => (int64[4] y) {y = ArgMax<keepdims=0, axis=5>(a)}", "axis"),
        ("(float[4,4] a) => (float[4,8] y) {y = Concat<axis=5>(a, a)}", "[-rank, rank-1]"),
        ("(float[4,4] a) => (float[4,4] y) {y = Flatten<axis=9>(a)}", "9"),
    ],
)
def test_nodes_whose_operands_do_not_fit(graph: str, part: str) -> None:
    text = refusal(parsed(graph))
    operator = graph.partition("y = ")[2].partition("<")[0].partition("(")[0]
    assert text.startswith(f"'{operator}:y' ({operator}) is not valid: ")
    assert "its inputs are 'a' float[" in text
    if part != "found":
        assert part in text


@pytest.mark.parametrize(
    ("graph", "values"),
    [
        ("(float[4,4] a) => (float[4] y) {y = ReduceSum<keepdims=0>(a, k)}", [5]),
        ("(float[2,6] a) => (float[2,3] y, float[2,4] z) {y, z = Split<axis=1>(a, k)}", [3, 4]),
        ("(float[4] a) => (float[2] y) {y = Gather(a, k)}", [0, 9]),
        ("(float[9] a) => (float[20] y, int64[20] z) {y, z = TopK(a, k)}", [20]),
    ],
)
def test_constants_that_do_not_fit(graph: str, values: list[int]) -> None:
    assert "is not valid" in refusal(parsed(graph, k=values))


def test_a_node_in_a_branch_is_named() -> None:
    graph = """(float[4] a, float[3] b, bool c) => (float[4] y) {
      y = If(c)<then_branch = t () => (float[4] p) { p = Relu(a) },
                else_branch = e () => (float[4] q) { q = Add(a, b) }> }"""
    assert "'If:y/else/Add_1' (Add)" in refusal(parsed(graph))


@pytest.mark.parametrize("declared", ["", "[6]", "[1,2,3]", "[4,3]", "[9,9]"])
@pytest.mark.parametrize("size", ["2", "N"])
def test_declared_shapes_of_outputs_are_warned_of(declared: str, size: str) -> None:
    model = parsed(f"(float[{size},3] x) => (float{declared} y) {{y = Relu(x)}}")
    with pytest.warns(ModelWarning) as found:
        imported = import_model(model, shapes={"x": (2, 3)})
    assert [str(warning.message) for warning in found] == [
        f"output 'y': the model declares float{declared or '[]'}, its nodes compute float[2,3]: "
        "what is computed counts"
    ]
    assert imported.signature.outputs[0].shape == (2, 3)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(cpu_runner.run(imported, {"x": x})["y"], x)


def test_declared_types_of_outputs_are_compared() -> None:
    text = refusal(parsed("(float[2] x) => (double[2] y) {y = Relu(x)}"))
    assert text == (
        "output 'y': the model declares double[2], its nodes compute float[2]: correct the "
        "declaration or the nodes"
    )


def test_many_wrong_declarations_are_one_warning() -> None:
    model = parsed(
        "(float[2] x) => (float[3] y) {a = Exp(x)\n b = Abs(a)\n c = Exp(b)\n y = Abs(c)}"
    )
    for name in "abc":
        model.graph.value_info.append(
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [7])
        )
    with pytest.warns(ModelWarning) as found:
        import_model(model)
    (text,) = (str(warning.message) for warning in found)
    assert "value 'a': the model declares float[7], its nodes compute float[2]; " in text
    assert text.endswith(", and 1 more: what is computed counts")


@pytest.mark.parametrize(
    ("graph", "values"),
    [
        ("(float[1,3] x) => (float[9,3] y) {y = Expand(x, k)}", [4, 3]),
        ("(float[8] x) => (float[50] y) {y = Gather(x, k)}", [0, 1]),
        ("(float[2] x) => (float[9] y) {y = Tile(x, k)}", [2]),
        ("(float[1,1,4,4] x) => (float[1,1,3,3] y) {y = Resize(x, , , k)}", [1, 1, 2, 2]),
        ("(float[2] x) => (float[5] y) {z = ConstantOfShape(k)\n y = Add(x, z)}", [2]),
    ],
)
def test_no_data_is_invented_for_what_is_declared(graph: str, values: list[int]) -> None:
    model = parsed(graph, k=values)
    with pytest.warns(ModelWarning, match=r"^output 'y': the model declares"):
        imported = import_model(model)
    x = np.ones(imported.signature.inputs[0].shape, np.float32)
    found = cpu_runner.run(imported, {"x": x})["y"]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (expected,) = np.asarray(ReferenceEvaluator(model).run(None, {"x": x}))
    np.testing.assert_array_equal(found, expected)


def test_stale_shapes_of_intermediate_values() -> None:
    """A wrong declared shape of an intermediate value gives a warning, and is ignored."""
    model = parsed("(float[2,3] x) => (float[4,3] y) {a = Exp(x)\n y = Concat<axis=0>(a, a)}")
    model.graph.value_info.append(
        helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [7, 7])
    )
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    with pytest.warns(ModelWarning, match=r"^value 'a': the model declares float\[7,7\]"):
        imported = import_model(model)
    found = cpu_runner.run(imported, {"x": x})["y"]
    np.testing.assert_allclose(found, np.concatenate([np.exp(x)] * 2), rtol=1e-5)


@pytest.mark.parametrize("declared", ["float[A,B]", "float[2,B]", "float[0,3]"])
def test_open_dimensions_may_have_any_size(declared: str) -> None:
    imported = import_model(parsed(f"(float[2,3] x) => ({declared} y) {{y = Relu(x)}}"))
    assert imported.signature.outputs[0].shape == (2, 3)


def test_an_output_that_is_constant_but_declared_open() -> None:
    graph = """(float[N,3] x) => (float[N,3] y, int64[Q] z, int64[2,R] w) {
      y = Relu(x)
      s = Shape<start=0, end=1>(x)
      n = Squeeze(s)
      zero = Constant<value = int64 {0}>()
      one = Constant<value = int64 {1}>()
      z = Range(zero, n, one)
      w = NonZero(k) }"""
    model = parsed(graph)
    model.graph.initializer.append(numpy_helper.from_array(np.eye(3, dtype=np.float32), "k"))
    imported = import_model(model, shapes={"x": (5, 3)})
    found = cpu_runner.run(imported, {"x": np.ones((5, 3), np.float32)})
    np.testing.assert_array_equal(found["z"], np.arange(5))
    np.testing.assert_array_equal(found["w"], np.array(np.nonzero(np.eye(3))))


def test_a_fault_that_ends_inference_in_any_mode() -> None:
    """An error that ends ONNX's shape inference even in its lenient mode is reported clearly.

    An example is a Concat without operands.
    """
    node = helper.make_node("Concat", [], ["y"], name="join", axis=0)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    model = helper.make_model(helper.make_graph([node], "test", [], [result]))
    with pytest.raises(onnx.shape_inference.InferenceError) as error:
        onnx.shape_inference.infer_shapes(model)
    assert inference_error(model, str(error.value)) == (
        "'join' (Concat) is not valid: Input 0 is out of bounds; its inputs are of unknown types"
    )

"""Models with invalid texts, data or attributes are refused in one line that names the place."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_contradictions import parsed, refusal

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.open_inputs import open_signature

RELU = "(float[2] x) => (float[2] y) {y = Relu(x)}"


def with_weight(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model that adds ``tensor``, an initializer ``w``, to its input."""
    model = parsed("(float[2] x) => (float[2] y) {y = Add(x, w)}")
    model.graph.initializer.append(tensor)
    return model


def weight(**fields: object) -> onnx.TensorProto:
    """Return a tensor ``w`` of two floats with the given fields replaced."""
    tensor = numpy_helper.from_array(np.ones(2, np.float32), "w")
    for name, value in fields.items():
        if name == "dims":
            tensor.ClearField("dims")
            tensor.dims.extend(value)  # type: ignore[arg-type]
        else:
            setattr(tensor, name, value)
    return tensor


@pytest.mark.parametrize(
    ("tensor", "part"),
    [
        (weight(dims=[3]), "does not fit its shape [3]: it has 8 bytes, not 12"),
        (weight(dims=[1]), "does not fit its shape [1]: it has 8 bytes, not 4"),
        (weight(dims=[-2]), "does not fit its shape [-2]"),
        (weight(dims=[1 << 62, 1 << 62]), "does not fit its shape"),
        (weight(raw_data=b"123"), "does not fit its shape [2]: it has 3 bytes, not 8"),
        (weight(data_type=TensorProto.INT4, dims=[5, 2]), "it has 8 bytes, not 5"),
        (weight(data_type=99), "unknown element type 99"),
        (
            TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"\xff"]),
            "does not fit its shape [1]",
        ),
    ],
)
def test_data_that_does_not_fit(tensor: onnx.TensorProto, part: str) -> None:
    for model in (with_weight(tensor), in_a_branch(tensor)):
        if "element type" not in part or model.graph.initializer[0].name == "w":
            text = refusal(model)
            assert part in text and "'w'" in text


@pytest.mark.parametrize("place", ["input", "output", "value_info"])
def test_values_of_unknown_types(place: str) -> None:
    model = with_weight(weight())
    model.graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    value = getattr(model.graph, place)[0]
    value.type.tensor_type.elem_type = -1
    assert f"'{value.name}' has the unknown element type -1" in refusal(model)


@pytest.mark.parametrize("kind", ["optional", "sequence", "optional sequence"])
@pytest.mark.parametrize(
    ("element", "size", "part"),
    [
        (TensorProto.FLOAT, -5, "dimension 1 of 'x' is -5: expected a size, or -1 for an open"),
        (99, 3, "'x' has the unknown element type 99: expected one of ONNX's"),
    ],
)
def test_tensors_in_other_types(kind: str, element: int, size: int, part: str) -> None:
    """Tensors in optional and sequence types are checked like others; -1 is an open dimension."""
    assert part in refusal(_optional_input(kind, element, [2, size]))
    model = load(_optional_input(kind, TensorProto.FLOAT, [-1, 3]))
    host_type = open_signature(model).inputs[0].host_type
    assert host_type is not None and host_type.shape == ("x[0]", 3)


def _optional_input(kind: str, element: int, shape: list[int]) -> onnx.ModelProto:
    """Return a model whose input ``x`` has an optional type, a sequence type, or both."""
    found = helper.make_tensor_type_proto(element, shape)
    if "sequence" in kind:
        found = helper.make_sequence_type_proto(found)
    if "optional" in kind:
        found = helper.make_optional_type_proto(found)
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [])
    graph = helper.make_graph([node], "g", [helper.make_value_info("x", found)], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def in_a_branch(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model with ``tensor`` in the branch of an If that is never executed."""
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    node = helper.make_node("Add", ["x", "w"], ["y"])
    branch = helper.make_graph([node], "branch", [], [y], [tensor])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "other", [], [y])
    model = parsed(RELU)
    model.graph.node[0].CopyFrom(
        helper.make_node("If", ["c"], ["y"], then_branch=other, else_branch=branch)
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    return model


@pytest.mark.parametrize("text", [b"\xed\xa0\x80x", b"\xff\xffxx"])
@pytest.mark.parametrize("name", ["xxxx", "test", "Relu", "node", "producer"])
def test_names_that_are_not_utf8(text: bytes, name: str) -> None:
    model = parsed("(float[2] xxxx) => (float[2] y) {y = Relu(xxxx)}")
    model.graph.node[0].name, model.producer_name = "node", "producer"
    content = model.SerializeToString().replace(name.encode(), text[: len(name)].ljust(len(name)))
    with pytest.raises(ModelError, match="expected names in UTF-8, found b'"):
        import_model(content)


def test_attributes_that_are_not_utf8() -> None:
    model = parsed('(float[2] x) => (float[4] y) {y = Pad<mode="edge">(x, p)}', p=[1, 1])
    model.graph.node[0].attribute[0].s = b"\xb5\xff"
    assert r"attribute 'mode': expected text in UTF-8, found b'\xb5\xff'" in refusal(model)


def test_operators_that_exporters_leave_in_place() -> None:
    """Operators that are no ONNX operators are listed in the error.

    TensorFlow's exporter writes operators that it cannot translate into the model.
    """
    model = parsed(
        "(float[2] x) => (float[2] y) {a = Erfc(x)\n b = Erfc(a)\n y = PartitionedCall(b)}"
    )
    model.graph.node[2].attribute.append(helper.make_attribute("config", b"\xb5\xff"))
    model.graph.node.append(helper.make_node("NoOp", [], []))
    text = refusal(model)
    assert "(Erfc) is not valid" in text
    assert "found Erfc, NoOp, PartitionedCall (4 nodes), which no version of ONNX has" in text


@pytest.mark.parametrize(
    ("node", "part"),
    [
        (
            'Pad<mode="nonsense">(x, p)',
            "mode: expected one of constant, edge, reflect, wrap, found",
        ),
        ('ScatterND<reduction="sub">(x, p, x)', "reduction: expected one of add, max, min, mul"),
        (
            'Resize<mode="area">(x, , p)',
            "mode: expected one of cubic, linear, nearest, found 'area'",
        ),
        ("Softmax<axis=2147483648>(x)", "axis: expected numbers of dimensions, of which there are"),
        ("LayerNormalization<axis=9223372036854775807>(x, x)", "at most 64, found 922337203685477"),
        ("Transpose<perm=[-9223372036854775808]>(x)", "perm: expected numbers of dimensions"),
        ("Split<num_outputs=4611686018427387904>(x)", "num_outputs: expected 1, the number of its"),
        ("Split<num_outputs=0>(x)", "number of its results, found 0; set it to 1, or give the"),
    ],
)
def test_attributes_that_inference_would_believe(node: str, part: str) -> None:
    """Invalid attributes that ONNX's inference accepts are refused.

    They are refused in the graph, in a branch and in a function.
    """
    model = parsed(f"(float[2] x) => (float[2] y) {{y = {node}}}", p=[1, 1])
    inner = model.graph.node[0]
    opsets = [*model.opset_import, helper.make_opsetid("own", 1)]
    assert f"({inner.op_type}) is not valid: " in refusal(model)
    assert part in refusal(model)
    body = helper.make_function("own", "F", ["x", "p"], ["y"], [inner], model.opset_import)
    call = helper.make_node("F", ["x", "p"], ["y"], domain="own")
    called = helper.make_model(
        helper.make_graph(
            [call], "g", model.graph.input, model.graph.output, model.graph.initializer
        ),
        opset_imports=opsets, functions=[body], ir_version=10,
    )  # fmt: skip
    assert part in refusal(called)


@pytest.mark.parametrize(
    ("graph", "part"),
    [
        ("(float[2,3,4] x, float[3] s) => (float[A,B,C] y) {y = PRelu(x, s)}",
         "expected a slope that broadcasts to [2, 3, 4], found [3]"),
        ("(float[7,2,9] x) => (float[A,B,C] y) <int64[3] k={7,0,6}> {y = Resize(x, , , k)}",
         "expected a positive size for dimension 1 of [7, 2, 9], found 0"),
        ("(float[7,0,9] x) => (float[A,B,C] y) <int64[1] k={3}> "
         "{y = Resize<axes=[-2]>(x, , , k)}",
         "expected a size of 0 for dimension -2 of [7, 0, 9], found 3"),
        ("(float[2,4] x, float[4,3] w, float[4,1] c) => (float[A,B] y) {y = Gemm(x, w, c)}",
         "expected an addend that broadcasts to [2, 3], found [4, 1]"),
        ("(float[1,1,4,4] x, float[1,1,3] w) => (float[A,B,C,D] y) {y = Conv(x, w)}",
         "expected weights of 4 dimensions, like the data's, found [1, 1, 3]"),
        ("(float[1,1,4,4] x, float[1,1,3,3] w) => (float[A,B,C,D] y) "
         "{y = Conv<kernel_shape=[3,1]>(x, w)}",
         "kernel_shape: expected [3, 3], the sizes of its weights, found [3, 1]"),
        ("(float[3,4] x, int64[2] i) => (float[A] y) {y = GatherElements(x, i)}",
         "expected indices of 2 dimensions, like the data's, found [2]"),
        ("(float[3,4] x, int64[1,4] i, float[2,4] u) => (float[A,B] y) "
         "{y = ScatterElements(x, i, u)}",
         "expected updates of the indices' shape [1, 4], found [2, 4]"),
        ("(float[3,4] x, int64[2,1] i, float[2,3] u) => (float[A,B] y) {y = ScatterND(x, i, u)}",
         "expected updates of shape [2, 4], found [2, 3]"),
        ("(float[2,3] x) => (float[A,B] y) {y = Transpose<perm=[0,0]>(x)}",
         "perm: expected each number from 0 to 1 once, found [0, 0]"),
        ("(float[2,3,4] x) => (float[A,B,C] y) {y = Transpose<perm=[2,1]>(x)}",
         "perm: expected each number from 0 to 2 once, found [2, 1]"),
        ("(float[1,4,4,4] x) => (float[A,B,C,D] y) {y = LRN<size=-1>(x)}",
         "size: expected a positive number, found -1"),
        ("(float[4,4] x) => (float[A,B] y) {y = LpNormalization<p=3>(x)}",
         "p: expected 1 or 2, found 3"),
        ("(float[1,3,4] x, float[4] s, float[3] b) => (float[A,B,C] y) "
         "{y = InstanceNormalization(x, s, b)}", "expected a scale of shape [3], found [4]"),
        ("(float[5,1,3] x, float[1,8,3] w, float[1,8,2] r, float[1,8] b) => (float[A,B,C,D] y) "
         "{y = LSTM<hidden_size=2>(x, w, r, b)}",
         "expected input 3 of shape [1, 16], found [1, 8]"),
        ("(float[5,1,3] x, float[1,2,3] w, float[1,2,2] r) => (float[A,B,C,D] y) "
         '{y = RNN<hidden_size=2, direction="bidirectional">(x, w, r)}',
         "expected input 1 of shape [2, 2, 3], found [1, 2, 3]"),
    ],
)  # fmt: skip
def test_operands_that_inference_does_not_compare(graph: str, part: str) -> None:
    assert part in refusal(parsed(graph))


def test_columns_are_of_whole_blocks() -> None:
    graph = "(float[1,5,5] x) => (float[A,B,C,D] y) {y = Col2Im(x, i, i)}"
    assert "expected columns of a multiple of 14 elements" in refusal(parsed(graph, i=[2, 7]))


@pytest.mark.parametrize(
    "graph",
    [
        "(float[4,4] x) => (float[4,4] y) {y = CumSum(x, e)}",
        "(float[1,3,3,5] x) => (float[A,B,C,D] y) {y = SpaceToDepth<blocksize=2>(x)}",
    ],
)
def test_what_no_rule_finds_names_the_node(graph: str) -> None:
    """An invalid node that only its builder detects is reported with its name."""
    text = refusal(parsed(graph, i=[2, 7], e=[]))
    assert "' (" in text and " fit each other, found others" in text


@pytest.mark.parametrize(
    ("node", "part"),
    [
        ("ConvTranspose<strides=[1099511627776,1]>(x, w)", "'ConvTranspose:y' (ConvTranspose): "),
        ("ConvTranspose<output_shape=[9,4611686018427387904]>(x, w)", "'y': expected at most 2147"),
        (
            "ConvTranspose<strides=[1,1,1]>(x, w)",
            "'ConvTranspose:y' (ConvTranspose) is not valid: ",
        ),
    ],
)
def test_transposed_convolutions(node: str, part: str) -> None:
    graph = f"(float[1,1,1,1] x, float[1,1,1,1] w) => (float[A,B,C,D] y) {{y = {node}}}"
    assert part in refusal(parsed(graph))


@pytest.mark.parametrize(
    ("inputs", "directions", "part"),
    [
        (1 << 62, [0], "num_scan_inputs: expected 1 to 1, its inputs, found 4611686018427387904"),
        (1, [0, 1], "is not valid: expected inputs and attributes that fit each other, found"),
    ],
)
def test_scans(inputs: int, directions: list[int], part: str) -> None:
    element, result = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "ef")
    body = helper.make_graph([helper.make_node("Neg", ["e"], ["f"])], "b", [element], [result])
    model = parsed(RELU.replace("2", "3,2"))
    scan = helper.make_node(
        "Scan", ["x"], ["y"],
        body=body, num_scan_inputs=inputs, scan_input_directions=directions,
    )  # fmt: skip
    model.graph.node[0].CopyFrom(scan)
    assert part in refusal(model)


def test_an_operator_without_a_definition() -> None:
    """An operator with attributes for which ONNX has no definition is refused, without a hang."""
    graph = "(float[1,2,4,8] q) => (float[A,B,C,D] y) {y = Attention<softmax_precision=5>(q, q, q)}"
    model = parsed(graph)
    model.opset_import[0].version = 23
    assert "expected inputs and attributes that ONNX defines it for" in refusal(model)


def test_an_output_that_is_listed_twice() -> None:
    """A model whose outputs have equal names is refused, since outputs are found by name."""
    model = parsed("(float[2] x) => (float[2] y, float[2] z) {y = Relu(x) z = Neg(x)}")
    model.graph.output[1].name = "y"
    assert "has the output 'y' more than once: expected names that differ" in refusal(model)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "\x1b[31m", "a\0b", "a\u2028b"])
def test_names_that_cannot_be_printed(name: str) -> None:
    """Control characters in names are escaped in messages, which stay one line."""
    model = parsed("(float[2] x) => (int64[A,B] y) {y = NonZero(x)}")
    model.graph.node[0].name = name
    escaped = repr(name)[1:-1]
    assert f"'{escaped}' (NonZero)" in refusal(model) and refusal(model).isprintable()

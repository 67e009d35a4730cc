"""Tests that invalid nodes that ONNX's inference accepts are refused.

Nodes whose result has a shape that is known only at run time are refused, too.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from test_contradictions import parsed, refusal

import rammer_mlir
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.frontends.onnx.builders.table import BUILDERS


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (
            "(float[1,3,4,4] x, float[2,4,3,3] w) => (float[A,B,C,D] y) {y = Conv(x, w)}",
            "expected 4 input channels, from weights [2, 4, 3, 3] in 1 groups, found 3",
        ),
        (
            "(float[1,4,4,4] x, float[3,2,3,3] w) => (float[A,B,C,D] y) {y = Conv<group=2>(x, w)}",
            "expected weights that 2 groups divide, found 3 in [3, 2, 3, 3]",
        ),
        (
            "(float[1,4,4,4] x, float[2,4,3,3] w, float[3] b) => (float[A,B,C,D] y)"
            "{y = Conv(x, w, b)}",
            "expected a bias of 2 elements, found [3]",
        ),
        (
            "(float[1,4,4,4] x, float[3,2,3,3] w) => (float[A,B,C,D] y) {y = ConvTranspose(x, w)}",
            "expected 3 input channels, from weights [3, 2, 3, 3] in 1 groups, found 4",
        ),
        (
            "(float[1,1,2,2] x) => (float[A,B,C,D] y) {y = MaxPool<kernel_shape=[5,5]>(x)}",
            "expected a window no larger than the padded input, found a result of shape "
            "[1, 1, -2, -2]",
        ),
        (
            "(float[2,4] x, float[4] w) => (float[2,4] y) {y = LayerNormalization<axis=5>(x, w)}",
            "expected an axis from -2 to 1, found 5",
        ),
        (
            "(float[2,4] x, float[3] w) => (float[2,4] y) {y = LayerNormalization(x, w)}",
            "expected a scale that broadcasts to [2, 4], found [3]",
        ),
        (
            "(float[2,4] x) => (float[2,4] y) {y = LpNormalization<axis=2>(x)}",
            "expected an axis from -2 to 1, found 2",
        ),
        (
            "(float[2,2] x, int64[4,2] k) => (float[4,2] y) {y = GatherElements<axis=1>(x, k)}",
            "expected indices within [2, 2] except along axis 1, found [4, 2]",
        ),
        (
            "(float[2,2] x, int64[2,3] k, float[2,3] u) => (float[2,2] y)"
            "{y = ScatterElements<axis=0>(x, k, u)}",
            "expected indices within [2, 2] except along axis 0, found [2, 3]",
        ),
        (
            "(float[2,3] x, int64[4,1] k) => (float[4] y) {y = GatherND<batch_dims=1>(x, k)}",
            "expected indices of the batch dimensions [2], found [4, 1]",
        ),
        (
            "(float[2,3] x, int64[2,2] k) => (float[N] y) {y = GatherND<batch_dims=1>(x, k)}",
            "expected tuples of at most 1 indices, found 2 in [2, 2]",
        ),
        (
            "(float[2,4] x, int64[2] k) => (float[2,4] y)"
            "{y = ReverseSequence<batch_axis=1, time_axis=0>(x, k)}",
            "expected sequence_lens of shape [4], found [2]",
        ),
        (
            "(float[1,1,2,2] x, int64[1,1,1,1] k) => (float[1,1,4,4] y)"
            "{y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, k)}",
            "expected indices of the data's shape [1, 1, 2, 2], found [1, 1, 1, 1]",
        ),
    ],
)
def test_invalid_nodes(graph: str, text: str) -> None:
    operator = graph.partition("y = ")[2].partition("<")[0].partition("(")[0]
    assert refusal(parsed(graph)) == f"'{operator}:y' ({operator}) is not valid: {text}"


def test_a_split_into_too_many_parts() -> None:
    """Parts of Split, of equal size but for the last one, cannot exceed the dimension."""
    graph = "(float[2,6] x) => (float[A,B] y) {y, a, b, c, d = Split<axis=1, num_outputs=5>(x)}"
    assert refusal(parsed(graph)) == (
        "'Split:y' (Split) is not valid: num_outputs: expected a number of parts for the 6 "
        "elements of dimension 1, found 5 parts of 2; lower it, or give sizes as input 'split'"
    )


@pytest.mark.parametrize(
    ("graph", "values", "text"),
    [
        (
            "(float[2,4] x) => (float[2,4] y) {y = CumSum(x, k)}",
            7,
            "'CumSum:y' (CumSum) is not valid: expected an axis from -2 to 1, found 7",
        ),
        (
            "(float[3,4] x) => (float[N] y) {y = Reshape(x, k)}",
            [5],
            "'Reshape:y' (Reshape) is not valid: expected a shape of 12 elements, like the "
            "input's [3, 4], found [5]",
        ),
    ],
)
def test_invalid_constants(graph: str, values: int | list[int], text: str) -> None:
    model = parsed(graph)
    model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), "k"))
    assert refusal(model) == text


@pytest.mark.parametrize(
    ("graph", "indices", "text"),
    [
        ("(float[4] x) => (float[N] y) {y = Gather(x, k)}", [0, 4], "-4 to 3, found 4"),
        ("(float[4,5] x) => (float[N,M] y) {y = Gather<axis=1>(x, k)}", [-6], "-5 to 4, found -6"),
        (
            "(float[4,5] x) => (float[N,M] y) {y = GatherElements<axis=1>(x, k)}",
            [[9, 1], [1, 2]],
            "-5 to 4, found 9",
        ),
        (
            "(float[4,5] x) => (float[N] y) {y = GatherND(x, k)}",
            [[1, 4], [4, 1]],
            "-4 to 3, found 4",
        ),
    ],
)
def test_constant_indices_out_of_range(graph: str, indices: list[Any], text: str) -> None:
    assert f" is not valid: expected indices from {text}" in refusal(parsed(graph, k=indices))


def test_constant_indices_in_range() -> None:
    model = parsed("(float[4,5] x) => (float[N] y) {y = GatherND(x, k)}")
    indices = np.array([[3, 4], [-4, -5]], np.int64)
    model.graph.initializer.append(numpy_helper.from_array(indices, "k"))
    assert import_model(model).signature.outputs[0].shape == (2,)


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [
        ("(float[2] x, int64[1] s) => (float[4] y) {y = Tile(x, s)}", "'s'"),
        ("(float[1] x, int64[1] s) => (float[4] y) {y = Expand(x, s)}", "'s'"),
        ("(float[4] x, int64[2] s) => (float[2,2] y) {y = Reshape(x, s)}", "'s'"),
        ("(int64 s, int64 e, int64 d) => (int64[3] y) {y = Range(s, e, d)}", "'s', 'e', 'd'"),
        ("(int64[4] x, int64 s, float[2] v) => (float[4,3] y) {y = OneHot(x, s, v)}", "'s'"),
        ("(int64[2] s) => (float[4,3] y) {y = ConstantOfShape(s)}", "'s'"),
        ("(float[4] x, int64[1] s) => (float[3] y, int64[3] i) {y, i = TopK(x, s)}", "'s'"),
    ],
)
def test_shapes_known_at_run_time_only(graph: str, inputs: str) -> None:
    """A result whose shape depends on an input's values is refused.

    A declared shape of the output makes no difference.
    """
    assert f"the shape of its result depends on the values of {inputs}: " in refusal(parsed(graph))


def test_operators_whose_shapes_inference_does_not_know() -> None:
    graph = """(float[1,4,6,6] x, float[4] g) => (float[A,B,C,D] y, float[E,F,G,H] z) {
      y = GroupNormalization<num_groups=2>(x, g, g)
      z = MeanVarianceNormalization(y) }"""
    outputs = import_model(parsed(graph)).signature.outputs
    assert [output.shape for output in outputs] == [(1, 4, 6, 6)] * 2


def test_an_opset_of_the_future() -> None:
    model = parsed("(float[4] x) => (float[4] y) {y = Relu(x)}")
    model.opset_import[0].version = 99
    assert "uses opset 99: expected at most" in refusal(model)


def _sparse(indices: Any) -> onnx.SparseTensorProto:
    """Return a sparse tensor [3, 4] named ``w`` with the elements 1 and 2 at ``indices``."""
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    places = numpy_helper.from_array(np.array(indices, np.int64), "indices")
    return helper.make_sparse_tensor(values, places, [3, 4])


@pytest.mark.parametrize("indices", [[0, 5], [[0, 0], [1, 1]]])
@pytest.mark.parametrize("is_constant", [True, False])
def test_sparse_tensors(indices: Any, is_constant: bool) -> None:
    model = parsed("(float[2,3] x) => (float[2,4] y) {y = MatMul(x, w)}")
    if is_constant:
        node = helper.make_node("Constant", [], ["w"], sparse_value=_sparse(indices))
        model.graph.node.insert(0, node)
    else:
        model.graph.sparse_initializer.append(_sparse(indices))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with rammer_mlir.compile(model, cache=False, num_veus=1) as made:
        np.testing.assert_array_equal(made.run({"x": x})["y"], x[:, :2] @ np.diag([1, 2, 0, 0])[:2])


@pytest.mark.parametrize("indices", [[0, 12], [-1, 0], [0], [[0, 4], [1, 1]]])
def test_sparse_tensors_with_wrong_indices(indices: Any) -> None:
    model = parsed("(float[2,3] x) => (float[2,4] y) {y = MatMul(x, w)}")
    model.graph.sparse_initializer.append(_sparse(indices))
    assert "the sparse tensor 'w' is not valid: expected an index within" in refusal(model)


def test_an_initializer_of_an_unknown_type() -> None:
    model = parsed("(float[4] x) => (float[4] y) {y = Add(x, w)}", w=[1, 2, 3, 4])
    model.graph.initializer[0].data_type = 99
    assert "initializer 'w' has the unknown element type 99" in refusal(model)


@pytest.mark.parametrize("size", [10**20, 2**63, 2**31])
def test_a_shape_larger_than_any_integer(size: int) -> None:
    model = parsed("(float[N,3] x) => (float[N,3] y) {y = Relu(x)}")
    assert refusal(model, x=(size, 3)).startswith("'x': expected at most 2147483647 elements")


def test_what_the_importer_cannot_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(BUILDERS, "MaxRoiPool")
    graph = """(float[1,6,4,4] x, float[2,5] r) => (float[A,B,C,D] y) {
      y = MaxRoiPool<pooled_shape=[2,2]>(x, r) }"""
    text = refusal(parsed(graph))
    assert "'MaxRoiPool:y'" in text and "cannot lower" in text and "%" not in text


def test_folding_prints_nothing() -> None:
    """Folding a division by zero prints no warning."""
    script = """
import numpy as np, onnx
from onnx import numpy_helper
from rammer_mlir.frontends.onnx import import_model
model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> test '
  '(float[3] x) => (float[3] y) {a = Div(o, n)\\n y = Add(x, a)}')
for name in "on":
    values = np.full(3, name == "o", np.float32)
    model.graph.initializer.append(numpy_helper.from_array(values, name))
import_model(model)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""

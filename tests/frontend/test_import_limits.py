"""Small models that stand for graphs of excessive size are refused quickly, or not expanded."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_contradictions import parsed, refusal

import rammer_mlir
from rammer_mlir.errors import RammerError
from rammer_mlir.frontends.onnx.limits import MOST_NESTED_CALLS, MOST_NODES
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.support.array_limits import MOST_DIMENSIONS

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
TOO_MANY = f"expected at most {MOST_NODES} nodes once functions, loops and recurrent layers are"


def function(name: str, calls: Sequence[str]) -> onnx.FunctionProto:
    """Return a function that applies the functions or operators ``calls`` one after the other.

    Names in ``calls`` that begin with "F" are functions.
    """
    values = ["a", *(f"t{number}" for number in range(1, len(calls))), "b"]
    nodes = [
        helper.make_node(call, [x], [y], domain="own" if call.startswith("F") else "")
        for call, (x, y) in zip(calls, pairwise(values), strict=True)
    ]
    return helper.make_function("own", name, ["a"], ["b"], nodes, OPSETS)


def calling(name: str, functions: Sequence[onnx.FunctionProto]) -> onnx.ModelProto:
    """Return a model that calls the function ``name`` of ``functions``."""
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [2]) for v in "xy")
    node = helper.make_node(name, ["x"], ["y"], domain="own", name="call")
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=10)


def chain(length: int, calls: int) -> onnx.ModelProto:
    """Return a model of ``length`` functions, each of which calls the next one ``calls`` times.

    The last function calls Neg.
    """
    names = [*(f"F{number}" for number in range(length)), "Neg"]
    functions = [function(a, [b] * calls) for a, b in pairwise(names)]
    return calling("F0", functions)


def nested_loops(depth: int, steps: int) -> onnx.ModelProto:
    """Return a model of ``depth`` nested Loops of ``steps`` steps around a Tanh."""
    inner = "y = Tanh(x)"
    for level in reversed(range(depth)):
        inner = (
            f"y{level} = Loop(n, c, s{level}) <body: graph = b{level} (int64 i{level}, "
            f"bool d{level}, float[2] s{level + 1}) => (bool e{level}, float[2] y{level + 1}) "
            f"{{e{level} = Identity(d{level}) {inner}}}>"
        ).replace("y = Tanh(x)", f"y{depth} = Tanh(s{depth})")
    model = parsed(f"(float[2] s0) => (float[2] y0) {{{inner}}}", n=[steps])
    del model.graph.initializer[0].dims[:]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    return model


def recurrent(operator: str, steps: int, attribute: str = "hidden_size=2") -> onnx.ModelProto:
    """Return a model of an LSTM, GRU or RNN over ``steps`` time steps.

    ``attribute`` is the node's attribute in ONNX's text syntax.
    """
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    model = parsed(
        f"(float[{steps},1,3] x, float[1,{2 * gates},3] w, float[1,{2 * gates},2] r) "
        f"=> (float[A,B,C,D] y) {{y = {operator}<{attribute}>(x, w, r)}}"
    )
    return model


@pytest.mark.parametrize(
    ("model", "part"),
    [
        (chain(24, 2), "'call' (F0): " + TOO_MANY),
        (chain(3, 1000), "'call' (F0): " + TOO_MANY),
        (recurrent("LSTM", 1 << 20, "activation_beta=[0.5]"), "'LSTM:y' (LSTM): " + TOO_MANY),
        (recurrent("RNN", 1 << 40), "'x': expected at most 2147483647 elements"),
    ],
    ids=["doubling", "wide", "parameters", "elements"],
)
def test_what_grows_without_end_is_refused(model: onnx.ModelProto, part: str) -> None:
    begin = time.process_time()
    assert part in refusal(model)
    assert time.process_time() - begin < 20


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_without_end_are_repeated(operator: str) -> None:
    begin = time.process_time()
    made = rammer_mlir.compile(recurrent(operator, 1 << 20), cache=False)
    assert isinstance(made, HostedModel)
    assert made.prepare() == []
    assert time.process_time() - begin < 20


@pytest.mark.parametrize(("depth", "steps"), [(4, 100), (1, 1 << 40), (7, 60)])
def test_loops_within_loops_are_not_unrolled(depth: int, steps: int) -> None:
    begin = time.process_time()
    made = rammer_mlir.compile(nested_loops(depth, steps), cache=False)
    assert isinstance(made, HostedModel)
    assert made.prepare() == []
    assert time.process_time() - begin < 20


def test_functions_that_call_themselves() -> None:
    """Functions that call themselves, directly or through others, are refused with their names."""
    text = "expected functions that do not call themselves, found "
    assert text + "'own::F0' -> 'own::F0'" in refusal(calling("F0", [function("F0", ["F0"])]))
    ring = [function("F0", ["F1"]), function("F1", ["F2"]), function("F2", ["Neg", "F0"])]
    assert text in refusal(calling("F0", ring))


def test_calls_within_calls() -> None:
    """Nested calls are expanded up to a limit of depth, and refused beyond it."""
    text = f"expected at most {MOST_NESTED_CALLS} levels, found {MOST_NESTED_CALLS + 1}"
    assert text in refusal(chain(5000, 1))
    x = np.array([1, -2], np.float32)
    with rammer_mlir.compile(chain(MOST_NESTED_CALLS, 1), num_veus=1) as executable:
        assert np.array_equal(executable.run({"x": x})["y"], -x)


def test_small_nests_are_expanded() -> None:
    """Small nested loops are unrolled."""
    x = np.array([0.5, -2], np.float32)
    expected = x
    for _ in range(27):
        expected = np.tanh(expected)
    with rammer_mlir.compile(nested_loops(3, 3), num_veus=1) as executable:
        np.testing.assert_allclose(executable.run({"s0": x})["y0"], expected, rtol=1e-5)


def ones(rank: int) -> str:
    return ",".join(["1"] * rank)


def test_dimensions_beyond_those_of_arrays() -> None:
    text = f"expected at most {MOST_DIMENSIONS} dimensions, found 100"
    graph = "(float[{0}] x) => (float[{0}] y) {{y = Transpose(x)}}"
    assert text in refusal(parsed(graph.format(ones(100))))
    inner = "(float[2] x) => (float[2] y) {z = Reshape(x, s) y = Reshape(z, t)}"
    assert text in refusal(parsed(inner, s=[2, *[1] * 99], t=[2]))
    with rammer_mlir.compile(parsed(graph.format(ones(MOST_DIMENSIONS))), num_veus=1) as built:
        x = np.full((1,) * MOST_DIMENSIONS, 3, np.float32)
        assert np.array_equal(built.run({"x": x})["y"], x)


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ("r = Expand(one, n) i = Add(r, one) y = Reshape(x, i)", {"n": [(1 << 31) - 1]}),
        ("i = Tile(one, n) y = Reshape(x, i)", {"n": [(1 << 31) - 1]}),
        ("i = Pad(one, n) y = Reshape(x, i)", {"n": [(1 << 31) - 9, 0]}),
        ("z = ConstantOfShape(n) r = Cast<to=7>(z) i = Add(r, one) y = Reshape(x, i)",
         {"n": [(1 << 31) - 1]}),
        ("z = ConstantOfShape(n) i = Gather(one, z) y = Reshape(x, i)", {"n": [(1 << 31) - 1]}),
        ("z = ConstantOfShape(n) t = Trilu(z) i = NonZero(t) y = Reshape(x, i)",
         {"n": [1 << 15, 1 << 15]}),
        ("z = ConstantOfShape(n) t = Add(z, z) i = NonZero(t) y = Reshape(x, i)",
         {"n": [1 << 30]}),
        ("i = Range(zero, n, step) y = Reshape(x, i)", {"n": 1 << 34}),
    ],
    ids=["Expand", "Tile", "Pad", "Add", "Gather", "Trilu", "NonZero", "Range"],
)  # fmt: skip
def test_constants_that_no_memory_holds(nodes: str, constants: dict[str, list[int]]) -> None:
    """Constants that would need gigabytes are not computed at compile time."""
    more = {"one": [1], "zero": 0, "step": 1, "all": [-1]} | constants
    used = {name: more[name] for name in more if f"{name}," in nodes or f"{name})" in nodes}
    model = parsed(f"(float[2] x) => (float[n] y) {{{nodes}}}", **used)  # type: ignore[arg-type]
    before = peak_bytes()
    with pytest.raises(RammerError) as error:
        rammer_mlir.compile(model, num_veus=1, cache=False)
    assert "\n" not in str(error.value)
    assert peak_bytes() - before < 1 << 30


def test_a_sum_over_an_unstored_matrix_needs_no_memory() -> None:
    """A sum over EyeLike needs no memory for the matrix.

    The matrix's elements are computed from their indices one after the other.
    """
    nodes = "z = ConstantOfShape(n) e = EyeLike(z) s = ReduceSum(e) y = Add(s, x)"
    text = f"(float[2] x) => (float[1,2] y) {{{nodes}}}"
    before = peak_bytes()
    rammer_mlir.compile(parsed(text, n=[1 << 20, 2047]), num_veus=1, cache=False).close()
    assert peak_bytes() - before < 1 << 30
    with rammer_mlir.compile(parsed(text, n=[64, 20]), num_veus=1, cache=False) as compiled:
        found = compiled.run({"x": np.ones(2, np.float32)})["y"]
    np.testing.assert_array_equal(found, [[21, 21]])


def test_products_that_no_memory_holds_are_left_to_the_run() -> None:
    model = parsed(
        """(float[2] x) => (float[n] y) {
          z = ConstantOfShape(n) w = ConstantOfShape(m) t = MatMul(z, w) r = Cast<to=7>(t)
          i = Reshape(r, all) y = Reshape(x, i)}""",
        n=[1 << 15, 1], m=[1, 1 << 15], all=[-1],
    )  # fmt: skip
    before = peak_bytes()
    assert isinstance(rammer_mlir.compile(model, num_veus=1, cache=False), HostedModel)
    assert peak_bytes() - before < 1 << 30


def peak_bytes() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.mark.parametrize("length", [1 << 20, (1 << 31) - 1])
def test_attention_over_too_many_places(length: int) -> None:
    model = parsed(f"(float[1,1,{length},1] q) => (float[A,B,C,D] y) {{y = Attention(q, q, q)}}")
    model.opset_import[0].version = 23
    assert "expected at most 2147483647 elements" in refusal(model)


@pytest.mark.parametrize("operator", ["MultiHeadAttention", "GroupQueryAttention"])
def test_causal_attention_over_too_many_places(operator: str) -> None:
    """Causal attention whose mask would have too many elements is refused."""
    causal = {"MultiHeadAttention": "unidirectional=1", "GroupQueryAttention": "kv_num_heads=1"}
    model = parsed(
        f"(float[1,1000000,8] q) => (float[A,B,C] y) {{y = com.microsoft.{operator}"
        f"<num_heads=1,{causal[operator]}>(q, q, q{', , , n, m' if operator[0] == 'G' else ''})}}"
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for name, shape in (("n", [1]), ("m", [])):
        value = np.full(shape, 999_999, np.int32)
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    assert "expected at most 2147483647 scores, found 1000000 x 1000000" in refusal(model)


def test_memory_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MemoryError of the compiler is reported to the user in one line."""

    def exhausted(_: object) -> None:
        raise MemoryError("Unable to allocate 6 GiB")

    monkeypatch.setattr("rammer_mlir.frontends.onnx.fold", exhausted)
    with pytest.raises(RammerError, match="takes more memory than there is"):
        rammer_mlir.compile(parsed("(float[2] x) => (float[2] y) {y = Relu(x)}"), cache=False)

"""Tests that the compile cache prepares equal models once, and models that differ again.

Preparation is shape inference, constant folding and decomposition of a model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.models import build
from rammer_mlir.compiler.caching import preparations, programs
from rammer_mlir.compiler.caching.cache_file import CacheFile
from rammer_mlir.compiler.caching.preparations import PREPARATION
from rammer_mlir.errors import ModelWarning, RammerError
from rammer_mlir.frontends.onnx.canonical import canonical_source
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.weight_values import weight_values
from rammer_mlir.runtime.executable import Executable
from tests.compiler.cached_models import (
    DIFFERENT,
    EQUAL,
    check,
    network,
    renamed,
    retrained,
)

HIT = f"cache: {PREPARATION}: hit"


@pytest.fixture
def compiled(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> Callable[..., tuple[Executable, list[str]]]:
    """Return a function that compiles a model, and returns the program and the cache's messages."""
    caplog.set_level(logging.INFO, "rammer_mlir")

    def compile_one(model: onnx.ModelProto, **options: Any) -> tuple[Executable, list[str]]:
        caplog.clear()
        found = rammer_mlir.compile(model, num_veus=2, **options)
        assert isinstance(found, Executable)
        return found, [m for m in caplog.messages if m.startswith(f"cache: {PREPARATION}")]

    return compile_one


Compiled = Callable[..., tuple[Executable, list[str]]]


@pytest.mark.parametrize("change", EQUAL)
def test_other_weights_and_names_are_not_prepared_again(
    compiled: Compiled, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (missed, kept) = compiled(network())
    assert "miss, no entry" in missed and "kept entry" in kept
    model = EQUAL[change]()
    fresh, _ = compiled(model, cache=False)
    with monkeypatch.context() as patched:
        patched.setattr("rammer_mlir.compiler.compilation.prepare_any", refuse_to_prepare)
        found, (line,) = compiled(model)
    assert line.startswith(HIT)
    assert found.stats["cache"] == "program"
    assert found.signature == fresh.signature
    assert found.image.program == fresh.image.program
    assert found.image.proof.values == fresh.image.proof.values
    check(found, model, 1)


def refuse_to_prepare(*_: object, **__: object) -> None:
    raise AssertionError("prepared again")


@pytest.mark.parametrize("change", DIFFERENT)
def test_any_real_difference_is_prepared(compiled: Compiled, change: str) -> None:
    compiled(network())
    found, (line, _) = compiled(DIFFERENT[change])
    assert "miss" in line
    check(found, DIFFERENT[change], 1)


NETWORKS = ("squeezenet", "transformer_encoder", "mlp", "embedding", "attention")


@pytest.mark.parametrize("name", NETWORKS)
def test_retrained_networks_are_not_prepared_again(compiled: Compiled, name: str) -> None:
    """A network with new weights takes the preparation from the cache.

    Its program equals that of a compilation without the cache.
    """
    model = build(name, scale="small")
    compiled(model)
    other = retrained(model, 7)
    fresh, _ = compiled(other, cache=False)
    found, (line, *_) = compiled(other)
    assert line.startswith(HIT)
    assert found.image.program == fresh.image.program
    assert found.image.proof.values == fresh.image.proof.values
    check(found, other, 3)


@pytest.mark.parametrize(
    "name", ["lstm_bidirectional", "gru_bidirectional", "resnet18", "nas_cell"]
)
def test_weights_that_preparation_reads_count_by_value(compiled: Compiled, name: str) -> None:
    """A model is prepared again if a weight that is sliced or folded has other values.

    The preparation slices or folds the weight.
    """
    model = build(name, scale="small")
    compiled(model)
    other = retrained(model, 7)
    found, lines = compiled(other)
    assert not [line for line in lines if line.startswith(HIT)]
    check(found, other, 3)
    # The preparation of the new values replaces that of the old ones.
    found, lines = compiled(renamed(other))
    check(found, renamed(other), 4)


def test_a_weight_with_new_values_is_named(compiled: Compiled) -> None:
    model = build("lstm_bidirectional", scale="small")
    compiled(model)
    _, (line, _) = compiled(retrained(model, 7))
    assert line.endswith("miss, preparation reads 'W', which has new values")
    _, (line,) = compiled(renamed(retrained(model, 7)))
    assert line.startswith(HIT)


def test_many_computed_weights_are_not_kept(
    compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparations, "_MOST_BYTES", 64)
    _, lines = compiled(build("resnet18", scale="small"))
    assert "not kept, preparation computes" in lines[-1]


def test_a_copied_weight_is_not_kept(compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preparation whose result has a copy of a weight is not kept in the cache."""
    prepare = preparations.ProgramLookup.find_prepared

    def with_copies(lookup: preparations.ProgramLookup, prepared: Any) -> Executable | None:
        prepared.weights.update({n: 2 * v for n, v in prepared.weights.items()})
        return prepare(lookup, prepared)

    monkeypatch.setattr(preparations.ProgramLookup, "find_prepared", with_copies)
    _, lines = compiled(network())
    assert lines[-1].endswith("not kept, it is unknown what preparation reads of weight 'a'")


def test_nodes_without_effect_count(compiled: Compiled) -> None:
    """A model with a new, unused node is prepared again: it may have to be refused."""
    compiled(network())
    other = network()
    other.graph.node.append(helper.make_node("NoSuchOperator", ["x"], ["unused"]))
    with pytest.raises(RammerError, match="NoSuchOperator"):
        compiled(other)
    other = network()
    other.graph.node.append(helper.make_node("Relu", ["x"], ["unused"]))
    _, (line, _) = compiled(other)
    assert "miss" in line


def test_sizes_of_open_dimensions_count(compiled: Compiled) -> None:
    model = network()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    for rows in (8, 5):
        made = rammer_mlir.compile(model, num_veus=2, dims={"rows": rows})
        x = np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)
        assert made.run({"x": x})["y"].shape == (rows, 24)


def test_constants_in_the_graph_count_by_value(compiled: Compiled) -> None:
    compiled(with_shape(2, 12))
    found, (line, _) = compiled(with_shape(4, 6))
    assert "miss" in line
    check(found, with_shape(4, 6), 1)


def with_shape(*shape: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Reshape", ["e", "shape"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "reshaped",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(shape, np.int64), "shape")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_a_collision_of_hashes_is_prepared(
    compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hash_of(_: bytes) -> str:
        return "sha256:equal"

    for module in (programs, preparations):
        monkeypatch.setattr(module, "hash_of", hash_of)
    compiled(network())
    for change, model in DIFFERENT.items():
        found, lines = compiled(model)
        assert "is of another model" in lines[0], change
        check(found, model, 1)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"program": 3}'])
def test_a_damaged_entry_is_prepared(compiled: Compiled, folder: Path, content: bytes) -> None:
    compiled(network())
    file = CacheFile(folder, 1 << 30)
    (kept,) = (each for each in file.kept() if each.level == PREPARATION)
    entry = file.find(PREPARATION, kept.key)
    assert entry is not None
    file.keep(PREPARATION, kept.key, content, identity=entry.identity)
    found, (line, _) = compiled(retrained(network(), 1))
    assert "damaged entry" in line
    assert found.stats["cache"] == "program"
    _, (line,) = compiled(retrained(network(), 2))
    assert line.startswith(HIT)


def test_an_entry_without_its_program_compiles(compiled: Compiled, folder: Path) -> None:
    compiled(network())
    file = CacheFile(folder, 1 << 30)
    for each in file.kept():
        if each.level == "program":
            file.remove(each.level, each.key)
    model = retrained(network(), 1)
    found, _ = compiled(model)
    assert "cache" not in found.stats
    check(found, model, 1)


def test_weights_of_16_bits_that_preparation_reads_count_by_value(compiled: Compiled) -> None:
    """A model is prepared again if a 16-bit weight that the preparation slices has other values."""
    compiled(shared_bf16(0))
    _, (line, *_) = compiled(shared_bf16(1))
    assert "miss" in line
    found, _ = compiled(shared_bf16(1))
    fresh, _ = compiled(shared_bf16(1), cache=False)
    x = np.random.default_rng(2).standard_normal((1, 16, 8, 8)).astype(np.float32)
    for name, value in fresh.run({"x": x}).items():
        np.testing.assert_array_equal(found.run({"x": x})[name], value)


def shared_bf16(seed: int) -> onnx.ModelProto:
    weights = np.random.default_rng(seed).standard_normal((16, 16, 3, 3)).astype(np.float32)
    kind = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    nodes = [
        helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16),
        helper.make_node("Conv", ["b", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Conv", ["b", "w"], ["d"], pads=[12] * 4, dilations=[12, 12]),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["d"], ["z"], to=TensorProto.FLOAT),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"]
    graph = helper.make_graph(
        nodes,
        "shared",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])],
        outputs,
        [numpy_helper.from_array(weights.astype(kind), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=11)


def test_sizes_belong_to_inputs_whatever_their_names(folder: Path) -> None:
    """A model with the names of its inputs exchanged gets a program of its own."""
    rng = np.random.default_rng(0)
    feeds = {
        "a": rng.standard_normal(300).astype(np.float32),
        "b": rng.standard_normal(500).astype(np.float32),
    }
    for first, second in (("a", "b"), ("b", "a")):
        with rammer_mlir.compile(two_inputs(first, second), num_veus=1) as executable:
            found = executable.run(feeds)["y"]
        expected = np.concatenate([np.maximum(feeds[first], 0), -feeds[second]])
        np.testing.assert_array_equal(found, expected)


def two_inputs(first: str, second: str) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", [first], ["r"]),
        helper.make_node("Neg", [second], ["n"]),
        helper.make_node("Concat", ["r", "n"], ["y"], axis=0),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"size of {name}"])
        for name in (first, second)
    ]
    graph = helper.make_graph(
        nodes, "two", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_the_declared_type_of_an_output_that_is_an_input_counts(compiled: Compiled) -> None:
    def passed_on(kind: int) -> onnx.ModelProto:
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "passed",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
            [
                helper.make_tensor_value_info("y", TensorProto.FLOAT, [4]),
                helper.make_tensor_value_info("x", kind, [4]),
            ],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    compiled(passed_on(TensorProto.FLOAT))
    with pytest.raises(RammerError, match=r"output 'x': the model declares int32"):
        compiled(passed_on(TensorProto.INT32))


def test_each_compilation_of_a_wrong_declaration_warns(compiled: Compiled) -> None:
    model = network()
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 9
    for seed in range(2):
        with pytest.warns(ModelWarning, match="'y'"):
            _, lines = compiled(retrained(model, seed))
        assert lines[-1].endswith("not kept, preparation warns of the model")


@pytest.mark.parametrize("change", ["results", "opsets", "effects"])
def test_forms_of_loaded_models_have_all_that_preparation_sees(change: str) -> None:
    def form(model: onnx.ModelProto) -> bytes:
        loaded = load(model)
        return canonical_source(loaded, weight_values(loaded)).form

    one, other = network(), network()
    if change == "results":
        for model, results in ((one, ["m", "k"]), (other, ["m", ""])):
            model.graph.node.append(helper.make_node("Dropout", ["x"], results))
    elif change == "opsets":
        for model, versions in ((one, [20, 19]), (other, [19, 20])):
            del model.opset_import[:]
            names = ("", "ai.onnx") if model is one else ("ai.onnx", "")
            pairs = zip(names, versions, strict=True)
            model.opset_import.extend(helper.make_opsetid(*pair) for pair in pairs)
    else:
        other.opset_import.append(helper.make_opsetid("com.acme", 1))
        one.opset_import.append(helper.make_opsetid("com.acme", 1))
        other.graph.node.append(helper.make_node("Print", ["x"], [], domain="com.acme"))
    assert form(one) != form(other)


def test_models_with_functions_are_not_prepared_again(compiled: Compiled) -> None:
    compiled(with_function(1))
    found, (line,) = compiled(with_function(2))
    assert line.startswith(HIT)
    check(found, with_function(2), 3)


def test_models_with_unrolled_loops_have_their_own_weights(compiled: Compiled) -> None:
    for seed in (1, 2):
        found, _ = compiled(with_loop(seed))
        check(found, with_loop(seed), 3)


def with_loop(seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "w"], ["p"]),
            helper.make_node("Add", ["p", "b"], ["t"]),
            helper.make_node("Identity", ["go"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [4, 40]),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, [4, 40]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)],
        "loop",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 40])],
        [
            numpy_helper.from_array(np.array(3, np.int64), "count"),
            numpy_helper.from_array(0.1 * rng.standard_normal((40, 40)).astype("f4"), "w"),
            numpy_helper.from_array(rng.standard_normal(40).astype("f4"), "b"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def with_function(seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    twice = helper.make_function(
        "own",
        "Twice",
        ["a", "w"],
        ["c"],
        [
            helper.make_node("MatMul", ["a", "w"], ["b"]),
            helper.make_node("MatMul", ["b", "w"], ["c"]),
        ],
        [helper.make_opsetid("", 20)],
    )
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x", "w"], ["y"], domain="own")],
        "function",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 40])],
        [numpy_helper.from_array(0.1 * rng.standard_normal((40, 40)).astype("f4"), "w")],
    )
    return helper.make_model(graph, opset_imports=opsets, functions=[twice], ir_version=10)

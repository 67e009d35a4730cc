"""Tests that an import takes time in proportion to the nodes, and little memory besides weights."""

from __future__ import annotations

import gc
import io
import os
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.imports import KINDS, large_model, measure
from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx import import_model, large_data, tensor_data
from rammer_mlir.frontends.onnx.digest import model_digest
from rammer_mlir.frontends.onnx.tensors import array_of, num_bytes
from rammer_mlir.support.garbage import paused_collector


@pytest.fixture
def always_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small models be parsed without the data of their weights, as large models are."""
    monkeypatch.setattr(tensor_data, "WORTH_SPLITTING", 0)
    monkeypatch.setattr(large_data, "_LARGE", 64)


@pytest.mark.parametrize("kind", KINDS)
def test_generated_models_are_right(kind: str) -> None:
    model = large_model(kind, 12)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"v0": x})
    expected = np.asarray(found)
    with rammer_mlir.compile(model) as compiled:
        np.testing.assert_allclose(compiled.run({"v0": x})["v12"], expected, 1e-4, 1e-5)


@pytest.mark.parametrize("kind", ["chain", "tree"])
def test_time_grows_with_the_nodes(kind: str) -> None:
    seconds: list[float] = []
    for count in (500, 4000):
        model = large_model(kind, count)
        begin = time.process_time()
        import_model(model)
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 8 * 4 * seconds[0]  # 64 times if it were quadratic
    assert seconds[1] < 4000 * 2e-3


def test_memory_is_less_than_twice_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "weights.onnx"
    path.write_bytes(large_model("weights", 600).SerializeToString())
    found = measure(path)
    assert found["weights"] >= 50 * 2**20
    assert found["bytes"] < 1.6 * found["weights"]


@pytest.mark.usefixtures("always_split")
@pytest.mark.parametrize("kind", KINDS)
def test_data_left_aside_is_found_again(kind: str, tmp_path: Path) -> None:
    model = large_model(kind, 12)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    whole = import_model(model)
    for source in (path, path.read_bytes()):
        parts = import_model(source)
        assert parts.bytecode == whole.bytecode
        assert parts.constants.keys() == whole.constants.keys()
        for name, value in parts.constants.items():
            np.testing.assert_array_equal(value, whole.constants[name], strict=True)


@pytest.mark.parametrize("kind", sorted(set(TensorProto.DataType.keys()) - {"UNDEFINED", "STRING"}))
def test_every_element_type_reads_alike(kind: str) -> None:
    data = np.random.default_rng(0).integers(0, 255, 96, np.uint8).tobytes()
    tensor = TensorProto(data_type=TensorProto.DataType.Value(kind), dims=[1, 4])
    tensor.raw_data = data[: num_bytes(tensor)]
    expected, found = numpy_helper.to_array(tensor), array_of(tensor, tensor.raw_data)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def test_a_split_model_is_the_model_without_data() -> None:
    model = large_model("weights", 6)
    content, places = large_data.split(io.BytesIO(model.SerializeToString()))
    parsed = onnx.ModelProto.FromString(content)
    data = model.SerializeToString()
    assert sorted(places) == [1, 2]
    for number, place in places.items():
        assert not parsed.graph.initializer[number].HasField("raw_data")
        parsed.graph.initializer[number].raw_data = data[place.begin : place.end]
    assert parsed == model


@pytest.mark.usefixtures("always_split")
def test_data_of_another_size_is_refused(tmp_path: Path) -> None:
    model = large_model("weights", 3)
    model.graph.initializer[1].raw_data += b"1234"
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="the data of tensor 'w0' does not fit its shape"):
        import_model(path)


@pytest.mark.usefixtures("always_split")
@pytest.mark.parametrize("cut", [1, 100, 300_000])
def test_a_truncated_model_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(large_model("weights", 6).SerializeToString()[:-cut])
    with pytest.raises(ModelError, match="is not an ONNX model, or is truncated"):
        import_model(path)


@pytest.mark.usefixtures("always_split")
def test_a_model_in_two_parts_is_parsed_whole(tmp_path: Path) -> None:
    """A file of two serialized messages is parsed as their merger, as protobuf defines it."""
    model = large_model("weights", 3)
    rest = onnx.ModelProto()
    rest.graph.doc_string = "more"
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString() + rest.SerializeToString())
    with path.open("rb") as file, pytest.raises(large_data.NotPlainError):
        large_data.split(file)
    assert import_model(path).bytecode == import_model(model).bytecode


def test_a_digest_is_of_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = large_model("weights", 3)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    whole = model_digest(path)
    monkeypatch.setattr(tensor_data, "WORTH_SPLITTING", 0)
    assert model_digest(path) == whole
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert model_digest(path) != whole


def test_a_pipe_can_be_a_model(tmp_path: Path) -> None:
    pipe = tmp_path / "model.onnx"
    os.mkfifo(pipe)
    content = large_model("chain", 4).SerializeToString()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert import_model(pipe).bytecode == import_model(content).bytecode
    writer.join()


def test_the_collector_pauses_until_the_first_has_ended() -> None:
    assert gc.isenabled()
    with paused_collector():
        assert not gc.isenabled()
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with paused_collector(False):
        assert gc.isenabled()


def test_overlapping_pauses_do_not_prolong_the_first() -> None:
    first, second = paused_collector(), paused_collector()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with pytest.raises(ValueError, match="end"), paused_collector():
            raise ValueError("end")
        assert not gc.isenabled()
    finally:
        gc.enable()

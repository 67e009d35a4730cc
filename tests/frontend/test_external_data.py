"""Tests that weights in files beside a model are found, and that no other files are opened."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import opt as opt_tool
from rammer_mlir.cli import run as run_tool
from rammer_mlir.compiler.cache import FOLDER_VARIABLE
from rammer_mlir.errors import ModelError, OptionError
from rammer_mlir.frontends.onnx.digest import model_digest
from rammer_mlir.frontends.onnx.source_folders import with_folder

VALUE = np.array([3, 1, 4, 1], np.float32)


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])


def external(location: str, **keys: object) -> onnx.TensorProto:
    """Return a tensor ``w`` of four floats whose data is in the file ``location``.

    ``keys`` are other entries of its external data, such as ``offset``.
    """
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, entry in {"location": location, **keys}.items():
        tensor.external_data.add(key=key, value=str(entry))
    return tensor


def in_graph(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model that adds an initializer of the graph, ``tensor``, to its input."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g", [value("x")], [value("y")], [tensor]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def in_node(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model that adds an attribute of a Constant node, ``tensor``, to its input."""
    model = in_graph(tensor)
    del model.graph.initializer[:]
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    return model


def in_subgraph(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model with ``tensor`` in branches of an If, as initializer and as attribute."""
    names = {"c": numpy_helper.from_array(np.array(True), "c")}
    inner = in_node(tensor).graph
    branch = helper.make_graph(inner.node, "then", [], [value("y")])
    other = TensorProto.FromString(tensor.SerializeToString())
    other.name = "v"
    copy = helper.make_node("Identity", ["v"], ["e"])
    otherwise = helper.make_graph([copy], "else", [], [value("e")], [other])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=otherwise)
    graph = helper.make_graph([node], "g", [value("x")], [value("y")], list(names.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def in_function(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model with ``tensor`` in a function that the model defines."""
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("own", "F", ["x"], ["y"], in_node(tensor).graph.node, opsets)
    node = helper.make_node("F", ["x"], ["y"], domain="own")
    graph = helper.make_graph([node], "g", [value("x")], [value("y")])
    opsets.append(helper.make_opsetid("own", 1))
    return helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)


PLACES = {"graph": in_graph, "node": in_node, "subgraph": in_subgraph, "function": in_function}


def files(folder: Path, model: onnx.ModelProto, contents: Mapping[str, bytes]) -> Path:
    """Write a model, and files with the given contents, to ``folder``; return the model's path."""
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def refusal(path: Path | bytes | onnx.ModelProto) -> str:
    with pytest.raises(ModelError) as caught:
        rammer_mlir.compile(path, num_veus=1)
    message = str(caught.value)
    assert "\n" not in message and "external data" in message
    return message


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", ["w.bin", "data/w.bin"])
def test_data_lies_beside_the_model(
    place: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """External data is read from the model's folder, not from the current folder."""
    model = PLACES[place](external(location, offset=8, length=16))
    path = files(tmp_path / "model", model, {location: b"12345678" + VALUE.tobytes() + b"rest"})
    files(tmp_path / "elsewhere", model, {location: bytes(100)})
    monkeypatch.chdir(tmp_path / "elsewhere")
    with rammer_mlir.compile(path, num_veus=1) as executable:
        found = executable.run({"x": np.ones(4, np.float32)})["y"]
    assert np.array_equal(found, VALUE + 1)


@pytest.mark.parametrize("place", PLACES)
def test_data_of_a_model_without_a_path(place: str) -> None:
    model = PLACES[place](external("w.bin"))
    for source in (model, model.SerializeToString()):
        assert "has external data: give the model's path" in refusal(source)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("/dev/zero", "no path from the model's folder on"),
        ("../secret", "no path from the model's folder on"),
        ("data/../../secret", "no path from the model's folder on"),
        ("", "no path from the model's folder on"),
        ("w\0.bin", "no path from the model's folder on"),
        ("pipe", "not a regular file"),
        ("data", "not a regular file"),
        ("linked", "a link to another folder"),
        ("linked_folder/secret", "a link to another folder"),
        ("zero", "a link to another folder"),
        ("circle", "link"),
        ("missing", "No such file"),
        ("w" * 5000, "File name too long"),
        ("short", "the file has 15 bytes, and 16 at 0 are asked for"),
    ],
)
def test_what_is_not_beside_the_model_is_not_opened(
    location: str, reason: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the compiler nor the cache opens files outside of the model's folder."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "model"
    path = files(folder, PLACES[place](external(location)), {"short": bytes(15)})
    (tmp_path / "secret").write_bytes(bytes(16))
    (folder / "data").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "linked").symlink_to(tmp_path / "secret")
    (folder / "linked_folder").symlink_to(tmp_path)
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "circle").symlink_to("circle")
    assert reason in refusal(path)


def test_a_link_within_the_folder(tmp_path: Path) -> None:
    path = files(tmp_path, in_graph(external("linked")), {"data/w": VALUE.tobytes()})
    (tmp_path / "linked").symlink_to("data/w")
    with rammer_mlir.compile(path, num_veus=1) as executable:
        assert np.array_equal(executable.run({"x": VALUE})["y"], 2 * VALUE)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"offset": 1}, "the file has 16 bytes, and 16 at 1 are asked for"),
        ({"offset": 1 << 62}, "are asked for"),
        ({"offset": -16}, "its offset is '-16'"),
        ({"offset": "nine"}, "its offset is 'nine'"),
        ({"offset": "9" * 50}, "its offset is"),
        ({"length": 15}, "the model gives it 15 bytes, its shape and type 16"),
        ({"length": 1 << 40}, "its shape and type 16"),
    ],
)
def test_places_in_the_file(keys: dict[str, object], reason: str, tmp_path: Path) -> None:
    path = files(tmp_path, in_graph(external("w.bin", **keys)), {"w.bin": VALUE.tobytes()})
    assert reason in refusal(path)


@pytest.mark.parametrize(
    ("kind", "dims", "reason"),
    [
        (TensorProto.FLOAT, [1 << 40], f"and {4 << 40} at 0 are asked for"),
        (TensorProto.FLOAT, [-4], "its shape is [-4]"),
        (TensorProto.STRING, [4], "its element type 8 has no raw data"),
    ],
)
def test_tensors_that_no_file_has(kind: int, dims: list[int], reason: str, tmp_path: Path) -> None:
    """A tensor with a size, shape or type that its file cannot hold is refused.

    No memory is allocated for the tensor before.
    """
    tensor = external("w.bin")
    tensor.data_type = kind
    tensor.dims[:] = dims
    path = files(tmp_path, in_graph(tensor), {"w.bin": VALUE.tobytes()})
    assert reason in refusal(path)


def test_elements_of_four_bits(tmp_path: Path) -> None:
    """External data of 4-bit elements has two elements in a byte."""
    tensor = external("w.bin", length=2)
    tensor.data_type = TensorProto.INT4
    model = in_graph(tensor)
    model.graph.node[0].input[1] = "v"
    cast = helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT)
    model.graph.node.insert(0, cast)
    path = files(tmp_path, model, {"w.bin": b"\x21\x43"})
    with rammer_mlir.compile(path, num_veus=1) as executable:
        found = executable.run({"x": np.zeros(4, np.float32)})["y"]
    assert found.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("place", PLACES)
def test_the_digest_reads_what_the_compiler_reads(place: str, tmp_path: Path) -> None:
    """The digest of a model depends only on the bytes of external data that the model uses."""
    path = files(tmp_path, PLACES[place](external("w", offset=4)), {"w": bytes(30)})
    digests: list[str | None] = []
    for position in (0, 4, 19, 20):
        content = bytearray(30)
        content[position] = 1
        (tmp_path / "w").write_bytes(content)
        digests.append(model_digest(path))
    before, first, last, behind = digests
    assert before == behind is not None
    assert len({before, first, last}) == 3


def test_the_digest_of_a_file_with_a_hole(tmp_path: Path) -> None:
    """A sparse file of terabytes can be used: only the bytes that the model uses are read."""
    path = files(tmp_path, in_graph(external("w", offset=16)), {"w": VALUE.tobytes()})
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    os.truncate(tmp_path / "w", 1 << 42 if limit == resource.RLIM_INFINITY else 1 << 20)
    assert model_digest(path) is not None
    with rammer_mlir.compile(path, num_veus=1) as executable:
        assert np.array_equal(executable.run({"x": VALUE})["y"], VALUE)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_data_is_found_in_a_named_folder(place: str, as_bytes: bool, tmp_path: Path) -> None:
    path = files(tmp_path / "model", PLACES[place](external("w.bin")), {})
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "w.bin").write_bytes(VALUE.tobytes())
    with rammer_mlir.compile(
        path.read_bytes() if as_bytes else path, external_data=folder
    ) as compiled:
        found = compiled(np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, VALUE)
    assert "cannot be read (No such file or directory)" in refusal(path)


def test_a_link_beside_the_model_may_lead_to_the_named_folder(tmp_path: Path) -> None:
    """A link beside the model may lead to the folder that the user names as ``external_data``.

    Models that are downloaded from model hubs have such links.
    """
    path = files(tmp_path / "snapshot", in_graph(external("w.bin")), {})
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (blobs / "abc").write_bytes(VALUE.tobytes())
    (path.parent / "w.bin").symlink_to("../blobs/abc")
    assert "is a link to another folder" in refusal(path)
    with rammer_mlir.compile(path, external_data=blobs) as compiled:
        np.testing.assert_array_equal(compiled(np.zeros(4, np.float32)), VALUE)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "link"])
def test_a_named_folder_opens_no_other(location: str, tmp_path: Path) -> None:
    path = files(tmp_path / "model", in_graph(external(location)), {})
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(VALUE.tobytes())
    (folder / "link").symlink_to("../w.bin")
    with pytest.raises(ModelError, match="cannot be read"):
        rammer_mlir.compile(path, external_data=folder)


def test_the_named_folder_has_the_first_word(tmp_path: Path) -> None:
    path = files(tmp_path / "model", in_graph(external("w.bin")), {"w.bin": bytes(16)})
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "w.bin").write_bytes(VALUE.tobytes())
    beside, named = model_digest(path), model_digest(with_folder(path, folder, ""))
    assert None not in (beside, named) and beside != named
    with rammer_mlir.compile(path, external_data=folder) as compiled:
        np.testing.assert_array_equal(compiled(np.zeros(4, np.float32)), VALUE)


@pytest.mark.parametrize("folder", ["missing", "file", "nul\0"])
def test_a_folder_that_is_none_is_refused(folder: str, tmp_path: Path) -> None:
    path = files(tmp_path, in_graph(external("w.bin")), {"w.bin": VALUE.tobytes(), "file": b""})
    with pytest.raises(OptionError, match="external_data: expected a folder, found"):
        rammer_mlir.compile(path, external_data=f"{tmp_path}/{folder}")


def test_tools_take_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = files(tmp_path / "model", in_graph(external("w.bin")), {})
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "w.bin").write_bytes(VALUE.tobytes())
    output = tmp_path / "model.rammer"
    calls = (
        (compile_tool.main, [path, "-o", output]),
        (run_tool.main, [path]),
        (opt_tool.main, [path, "-o", tmp_path / "out.mlir"]),
    )
    for main, arguments in calls:
        call = [*map(str, arguments), "--external-data"]
        assert main([*call, str(folder)]) == 0
        assert main([*call, str(tmp_path / "none")]) == 1
        assert "error: --external-data: expected a folder" in capsys.readouterr().err
    assert run_tool.main([str(output), "--external-data", str(folder)]) == 1
    assert "error: --external-data: expected an ONNX model" in capsys.readouterr().err

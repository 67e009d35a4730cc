"""Tests that the Python interfaces refuse options, paths and models of wrong types in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.compiler.options import check_options, check_shapes
from rammer_mlir.errors import ModelError, OptionError
from rammer_mlir.runtime.gpu.driver_loading import check_device
from rammer_mlir.scheduling.policies import register_policy

GIVEN: dict[str, Any] = {"target": "cpu", "policy": "wavefront", "num_veus": 2}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("target", None, "target: expected a name, found None"),
        ("policy", 3, "policy: expected a name, found 3"),
        ("num_veus", "2", "num_veus: expected an integer, found '2'"),
        ("num_veus", 1.5, "num_veus: expected an integer, found 1.5"),
        ("num_veus", True, "num_veus: expected an integer, found True"),
        ("costs", 7, "costs: expected a name or a file, found 7"),
        ("watchdog", None, "watchdog: expected an integer, found None"),
        ("merge", "a", "merge: expected a number, found 'a'"),
    ],
)
def test_an_option_of_another_kind(name: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError) as error:
        check_options(**{**GIVEN, name: value})
    assert str(error.value) == message


def test_numbers_may_be_those_of_numpy() -> None:
    given: dict[str, Any] = {**GIVEN, "num_veus": np.int64(2)}
    options = check_options(**given)
    assert options.num_veus == 2


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([("x", (1, 2))], "expected a mapping from names to shapes, found"),
        ({"x": 5}, "expected integers for 'x', as"),
        ({"x": "5,4"}, "found '5,4'"),
        ({"x": (5.5, 4)}, "found (5.5, 4)"),
        ({"x": (True, 4)}, "found (True, 4)"),
        ({"x": None}, "found None"),
    ],
)
def test_shapes_of_another_kind(shapes: Any, message: str) -> None:
    with pytest.raises(OptionError) as error:
        rammer_mlir.compile("absent.onnx", shapes=shapes)
    assert str(error.value).startswith("shapes: ") and message in str(error.value)


def test_sizes_may_be_those_of_numpy() -> None:
    assert check_shapes({"x": np.array([2, 3])}) == {"x": (2, 3)}
    assert check_shapes(None) == {}


@pytest.mark.parametrize("path", [None, 3.5, b"model.rammer", "", "a\0b"])
def test_a_path_of_another_kind(path: Any) -> None:
    with pytest.raises(OptionError, match="load: expected the path of a file, found"):
        rammer_mlir.load(path)


def test_a_path_that_no_file_can_have() -> None:
    with pytest.raises(ModelError, match=r"cannot read 'a\\x00b'"):
        rammer_mlir.compile("a\0b")


def test_bytes_of_other_kinds() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]> m (float[3] x) => (float[3] y) { y = Neg (x) }""")
    content = bytearray(model.SerializeToString())
    for source in (content, memoryview(content)):
        with rammer_mlir.compile(source) as executable:
            np.testing.assert_array_equal(executable(np.ones(3, np.float32)), [-1, -1, -1])


@pytest.mark.parametrize("device", [-1, "0", 0.5, None, True])
def test_a_device_of_another_kind(device: Any) -> None:
    with pytest.raises(OptionError, match="device: expected a number of a GPU, at least 0, found"):
        check_device(device)


@pytest.mark.parametrize("policy", [None, object(), "list"])
def test_a_policy_of_another_kind(policy: Any) -> None:
    with pytest.raises(OptionError, match="expected a policy, with a name and a function"):
        register_policy(policy)


@pytest.mark.parametrize("source", [None, 3, ["model.onnx"]])
def test_a_model_of_another_kind(source: Any) -> None:
    with pytest.raises(ModelError, match="expected a path, bytes, a binary file, an"):
        rammer_mlir.compile(source)

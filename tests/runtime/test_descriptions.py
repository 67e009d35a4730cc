"""Tests that ``repr`` of a compiled model is one line.

The line has the model's inputs, outputs, target, policy and number of vEUs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rammer_mlir

EXPECTED = "inputs: 'x' 4x8 float32, 'n' scalar int64; outputs: 'y' 4x8 float32"


def model(first: int | str | None = 4, name: str = "y") -> onnx.ModelProto:
    """Return a model ``y = relu(x)`` with a second, unused scalar input.

    ``first`` is the first dimension of ``x``: a size, or a symbol or None for an open dimension.
    ``name`` is the output's name.
    """
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [first, 8]) for n in ("x", name))
    n = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], [name])], "relu", [x, n], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_an_executable_is_described_before_and_after_a_file(tmp_path: Path) -> None:
    path = tmp_path / "relu.rammer"
    wanted = f"Executable({EXPECTED}; target: cpu; policy: list; vEUs: 2)"
    with rammer_mlir.compile(model(), policy="list", num_veus=2) as made:
        assert repr(made) == wanted
        made.save(path)
    assert repr(made) == wanted  # closed
    with rammer_mlir.load(path) as loaded:
        assert repr(loaded) == wanted


def test_an_unknown_policy_is_left_out() -> None:
    with rammer_mlir.compile(model(), num_veus=1) as made:
        del made.stats["policy"]
        assert repr(made) == f"Executable({EXPECTED}; target: cpu; vEUs: 1)"


def test_a_gpus_executable_is_described() -> None:
    made = rammer_mlir.compile(model(), target="nvvm:sm_90", emulate=True, num_veus=3)
    rest = f"({EXPECTED}; target: nvvm:sm_90; policy: wavefront; vEUs: 3)"
    assert repr(made) == f"EmulatedExecutable{rest}"


@pytest.mark.parametrize("first", ["batch", None])
def test_an_open_model_is_described(first: str | None, tmp_path: Path) -> None:
    shape = f"{first or 'x[0]'}x8"
    made = rammer_mlir.compile(model(first), num_veus=1, specializations=2)
    assert repr(made).startswith(f"OpenModel(inputs: 'x' {shape} float32, 'n' scalar int64; ")
    assert repr(made).endswith("; target: cpu; policy: wavefront; vEUs: 1)")
    made.run({"x": np.ones((3, 8), np.float32), "n": np.array(1)})
    made.save(tmp_path / "open.rammer")
    with rammer_mlir.load(tmp_path / "open.rammer") as loaded:
        assert repr(loaded) == repr(made)
    made.close()
    assert repr(made).startswith("OpenModel(")


def test_names_with_line_breaks_stay_in_one_line() -> None:
    with rammer_mlir.compile(model(name="a\nb"), num_veus=1) as made:
        assert "outputs: 'a b' 4x8 float32" in repr(made)

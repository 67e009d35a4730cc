"""Every printed portable stage can be compiled again, starting from this stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.cli.compile import main as compile_main
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES
from rammer_mlir.errors import ModelError, OptionError, UnsupportedError

RNG = np.random.default_rng(0)
WEIGHTS = {
    "W": RNG.standard_normal((16, 24)).astype(np.float32),
    "B": RNG.standard_normal(24).astype(np.float32),
    "C": RNG.standard_normal((24, 4)).astype(np.float32),
}


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("Add", ["a", "B"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "C"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "two-layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 4])],
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def compilation(model: onnx.ModelProto) -> Compilation:
    return Compilation.of_model(model, check_options("cpu", num_veus=2))


def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)}


def expected(arrays: dict[str, np.ndarray]) -> np.ndarray:
    hidden = np.maximum(arrays["x"].astype(np.float64) @ WEIGHTS["W"] + WEIGHTS["B"], 0)
    return 1 / (1 + np.exp(-(hidden @ WEIGHTS["C"])))


@pytest.mark.parametrize("stage", PORTABLE_STAGES)
@pytest.mark.parametrize("as_bytecode", [False, True], ids=["text", "bytecode"])
def test_a_stage_goes_on(model: onnx.ModelProto, stage: str, as_bytecode: bool) -> None:
    content = compilation(model).emit_whole(stage, as_bytecode=as_bytecode)
    with rammer_mlir.compile(content, num_veus=2, cache=False) as exe:
        assert exe.signature.inputs[0].name == "x"
        np.testing.assert_allclose(exe.run(feeds())["y"], expected(feeds()), rtol=1e-5)
        assert next(iter(exe.stats["seconds"])) == stage


@pytest.mark.parametrize("stage", PORTABLE_STAGES[:2])
def test_weights_are_given_beside_the_text(model: onnx.ModelProto, stage: str) -> None:
    text = compilation(model).emit(stage)
    with rammer_mlir.compile(text, num_veus=2, cache=False, constants=WEIGHTS) as exe:
        np.testing.assert_allclose(exe.run(feeds())["y"], expected(feeds()), rtol=1e-5)
    with pytest.raises(ModelError, match=r"expected values of the weights 'B', 'C', 'W'.*constant"):
        rammer_mlir.compile(text, cache=False)


def test_an_edited_program_is_compiled_as_it_is(model: onnx.ModelProto) -> None:
    text = compilation(model).emit_whole("tasks").decode()
    edited = text.replace("math.exp ", "math.exp2 ")
    assert edited != text
    with rammer_mlir.compile(edited, num_veus=2, cache=False) as exe:
        found = exe.run(feeds())["y"]
    assert np.abs(found - expected(feeds())).max() > 0.01


def test_an_edited_schedule_is_proven(model: onnx.ModelProto) -> None:
    text = compilation(model).emit_whole("program").decode()
    lines = text.splitlines(keepends=True)
    runs = [number for number, line in enumerate(lines) if line.strip().startswith("run ")]
    dropped = "".join(line for number, line in enumerate(lines) if number != runs[0])
    with pytest.raises(rammer_mlir.RammerError, match="never written"):
        rammer_mlir.compile(dropped, cache=False)


def test_a_program_has_its_own_number_of_veus(model: onnx.ModelProto) -> None:
    content = compilation(model).emit_whole("program")
    with rammer_mlir.compile(content, cache=False) as exe:
        assert exe.num_veus == 2
    with pytest.raises(OptionError, match="num_veus: expected 2, for which"):
        rammer_mlir.compile(content, num_veus=3, cache=False)


def test_later_stages_are_refused(model: onnx.ModelProto) -> None:
    content = compilation(model).emit("target")
    with pytest.raises(UnsupportedError, match=r"expected IR of one of the stages .*'program'"):
        rammer_mlir.compile(content, cache=False)


def test_types_without_a_counterpart_in_mlir_come_back(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Max", ["a", "b"], ["y"])],
        "unsigned",
        [helper.make_tensor_value_info(name, TensorProto.UINT8, [5]) for name in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [5])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path = tmp_path / "unsigned.mlirbc"
    path.write_bytes(compilation(proto).emit_whole("buffers", as_bytecode=True))
    a, b = np.array([1, 200, 3, 255, 0], np.uint8), np.array([2, 100, 3, 0, 128], np.uint8)
    with rammer_mlir.compile(path, cache=False) as exe:
        found = exe.run({"a": a, "b": b})["y"]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, np.maximum(a, b))


STORED = """
func.func @f(%a: tensor<3xcomplex<f32>>, %b: tensor<3xf8E5M2>, %c: tensor<3xi4>)
    -> (tensor<3xcomplex<f32>>, tensor<3xf8E5M2>, tensor<3xi4>) {
  %0 = stablehlo.multiply %a, %a : tensor<3xcomplex<f32>>
  %1 = arith.mulf %b, %b : tensor<3xf8E5M2>
  %2 = arith.addi %c, %c : tensor<3xi4>
  return %0, %1, %2 : tensor<3xcomplex<f32>>, tensor<3xf8E5M2>, tensor<3xi4>
}
"""


def test_types_of_stored_elements_are_kept(tmp_path: Path) -> None:
    with rammer_mlir.compile(STORED, cache=False) as exe:
        signature = exe.signature
    (tmp_path / "f.mlir").write_text(STORED)
    printed = tmp_path / "linalg.mlir"
    assert compile_main([str(tmp_path / "f.mlir"), "--emit", "linalg", "-o", str(printed)]) == 0
    a, b, c = np.array([1 + 2j, 3, -1j], np.complex64), np.ones(3), np.array([7, -8, 1])
    inputs = {
        spec.name: value.astype(spec.dtype)
        for spec, value in zip(signature.inputs, (a, b, c), strict=True)
    }
    with rammer_mlir.compile(printed, cache=False) as exe:
        assert exe.signature == signature
        found = exe.run(inputs)
    np.testing.assert_allclose(found["result0"], a * a, 1e-6)
    np.testing.assert_array_equal(found["result2"].astype(np.int32), [-2, 0, 2])


def test_unsigned_integers_are_passed_on() -> None:
    text = "func.func @f(%a: tensor<3xui16>) -> tensor<3xui16> {\n return %a : tensor<3xui16>\n}\n"
    given = np.array([1, 65535, 3], np.uint16)
    with rammer_mlir.compile(text, cache=False) as exe:
        found = exe.run({"arg0": given})["result0"]
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, given)

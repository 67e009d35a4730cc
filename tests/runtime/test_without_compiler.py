"""Tests that artifacts run in an installation without the compiler's packages.

What needs these packages names those that are missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rammer_mlir
from tests.cli.tools import save_layer
from tests.test_layering import ROOT

COMPILER = ("llvmlite", "mlir", "onnx", "onnx_ir", "onnxscript", "torch_mlir")
TOOL = "from rammer_mlir.__main__ import main; sys.exit(main(sys.argv[1:]))"
BLOCK = """import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def python(
    command: str, *arguments: str | Path, without: tuple[str, ...] = COMPILER
) -> tuple[int, str, str]:
    """Run Python code in a process in which the packages ``without`` cannot be imported.

    ``arguments`` are the command-line arguments of the code. Returns the exit code, the standard
    output and the standard error.
    """
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=without) + command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of an ONNX file of two layers; its artifact has the same name with ``.rammer``."""
    path = save_layer(tmp_path_factory.mktemp("models") / "layer.onnx")
    with rammer_mlir.compile(path) as compiled:
        compiled.save(path.with_suffix(".rammer"))
    return path


def with_identity(model: Path, path: Path) -> Path:
    """Write a model with an Identity in front of its first output to ``path``; return the path."""
    proto = onnx.load(model)
    name = proto.graph.output[0].name
    for node in proto.graph.node:
        node.output[:] = ["before" if each == name else each for each in node.output]
    proto.graph.node.append(helper.make_node("Identity", ["before"], [name]))
    onnx.save(proto, path)
    return path


def test_numpy_is_enough_to_run(model: Path, tmp_path: Path) -> None:
    command = (
        "import numpy as np, rammer_mlir\n"
        "model = rammer_mlir.load(sys.argv[1])\n"
        "x = np.arange(32, dtype=np.float32).reshape(4, 8)\n"
        "np.save(sys.argv[2], model.run({'x': x})['y'])\n"
    )
    output = tmp_path / "y.npy"
    artifact = model.with_suffix(".rammer")
    assert python(command, artifact, output, without=(*COMPILER, "ml_dtypes")) == (0, "", "")
    with rammer_mlir.load(artifact) as loaded:
        x = np.arange(32, dtype=np.float32).reshape(4, 8)
        np.testing.assert_array_equal(np.load(output), loaded.run({"x": x})["y"])


@pytest.mark.parametrize("options", [(), ("--info",), ("--verify",)])
def test_the_tool_runs_artifacts(model: Path, options: tuple[str, ...]) -> None:
    code, out, errors = python(TOOL, "run", model.with_suffix(".rammer"), *options)
    assert (code, errors) == (0, "")
    assert out


@pytest.mark.parametrize(
    "arguments", [("compile",), ("run",), ("opt", "--cse"), ("compile", "--list-targets")]
)
def test_tools_say_what_compiling_lacks(model: Path, arguments: tuple[str, ...]) -> None:
    code, out, errors = python(TOOL, *arguments, model)
    assert (code, out) == (1, "")
    assert errors.startswith("error: expected MLIR Python bindings") and errors.count("\n") == 1
    assert "pip install rammer-mlir" in errors


@pytest.mark.parametrize("package", ["llvmlite", "onnx", "onnxscript", "ml_dtypes"])
def test_each_package_of_the_compiler_is_named(model: Path, package: str, tmp_path: Path) -> None:
    output = tmp_path / "y.rammer"
    if package == "onnxscript":  # only models with something to simplify need it
        model = with_identity(model, tmp_path / "identity.onnx")
    code, out, errors = python(TOOL, "compile", model, "-o", output, without=(package,))
    assert (code, out) == (1, "")
    assert errors.count("\n") == 1
    assert errors.startswith(f"error: this needs the package '{package}': expected it installed")
    assert not output.exists()


def test_compile_raises_the_same(model: Path) -> None:
    command = (
        "import rammer_mlir\n"
        "try:\n"
        "    rammer_mlir.compile(sys.argv[1])\n"
        "except rammer_mlir.MissingPackageError as error:\n"
        "    print(error.name, isinstance(error, ImportError), error)\n"
    )
    code, out, errors = python(command, model, without=("llvmlite",))
    assert (code, errors) == (0, "")
    assert out.startswith("llvmlite True this needs the package 'llvmlite'")


def test_numpy_itself_is_named(model: Path) -> None:
    code, _, errors = python(TOOL, "run", model.with_suffix(".rammer"), without=("numpy",))
    assert code == 1
    assert errors.startswith("error: this needs the package 'numpy'") and errors.count("\n") == 1


def test_narrow_floats_need_one_more_package(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, (4,)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    path = tmp_path / "narrow.rammer"
    opsets = [helper.make_opsetid("", 17)]
    with rammer_mlir.compile(helper.make_model(graph, opset_imports=opsets, ir_version=9)) as model:
        model.save(path)
    assert python(TOOL, "run", path)[0] == 0
    code, out, errors = python(TOOL, "run", path, without=(*COMPILER, "ml_dtypes"))
    assert (code, out) == (1, "")
    assert errors == (
        "error: a tensor of bfloat16 or its kin needs the package 'ml_dtypes': expected it "
        "installed, found none; install it with 'pip install ml_dtypes'\n"
    )


def test_scripts_are_entry_points() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, place in project["scripts"].items():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function)), name

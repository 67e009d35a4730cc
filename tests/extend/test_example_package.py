"""Tests that the example package's extensions work, installed beside the project.

The test makes an environment of its own for both packages.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cli.tools import save_layer
from tests.extend.wheels import build_wheel, make_environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the ``bin`` folder of an environment with the project's and the example's wheels."""
    folder = tmp_path_factory.mktemp("packages")
    sources = {"rammer_mlir": ROOT, "rammer_extras": ROOT / "examples" / "rammer_extras"}
    wheels = [build_wheel(source, name, folder) for name, source in sources.items()]
    return make_environment(folder / "environment", wheels)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a model of two layers, ``y = relu(x @ w) @ v``."""
    return save_layer(tmp_path_factory.mktemp("models") / "layer.onnx")


def run(tools: Path, tool: str, *arguments: str | Path) -> str:
    """Run an installed tool without this source tree on its path; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(tools / tool), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tools)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def expected(model: Path, x: np.ndarray) -> np.ndarray:
    """Return the model's output, computed by NumPy."""
    import onnx
    from onnx import numpy_helper

    initializers = onnx.load(model).graph.initializer
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in initializers}
    return np.maximum(x @ values["w"], 0) @ values["v"]


def test_the_policy_and_the_target_compile_and_run(
    tools: Path, model: Path, tmp_path: Path
) -> None:
    """A model is compiled with the package's policy and target; the artifact runs right."""
    x = np.random.default_rng(2).standard_normal((4, 8)).astype(np.float32)
    feeds, outputs, artifact = (tmp_path / name for name in ("x.npz", "y.npz", "layer.rammer"))
    np.savez(feeds, x=x)
    options = ("--policy", "fewest-waits", "--target", "serial")
    printed = run(tools, "rammer-compile", model, *options, "-o", artifact)
    assert "on 1 vEUs" in printed
    run(tools, "rammer-run", artifact, "--inputs", feeds, "--outputs", outputs)
    np.testing.assert_allclose(np.load(outputs)["y"], expected(model, x), rtol=1e-4, atol=1e-4)


def test_the_target_has_a_stage_of_its_own(tools: Path, model: Path) -> None:
    loops = run(tools, "rammer-compile", model, "--target", "serial", "--emit", "loops")
    assert "scf.for" in loops and "linalg.generic" not in loops


def test_the_rkernels_compute_the_product(tools: Path, model: Path, tmp_path: Path) -> None:
    """The package's pass keeps only the product's C rKernel; its IR compiles, and runs right."""
    x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    files = ("x.npz", "y.npz", "tasks.mlir", "buffers.mlir", "layer.rammer")
    feeds, outputs, tasks, buffers, artifact = (tmp_path / name for name in files)
    np.savez(feeds, x=x)
    emit = ("--emit", "tasks", "--emit-values", "-o", tasks)
    run(tools, "rammer-compile", model, "--rkernels", "row-products", *emit)
    pipeline = "builtin.module(rtask-bufferize,rtask-prefer-external)"
    run(tools, "rammer-opt", tasks, f"--pass-pipeline={pipeline}", "-o", buffers)
    run(tools, "rammer-compile", buffers, "-o", artifact)
    assert "1 of 2 rOperators" in run(tools, "rammer-run", artifact, "--modules")
    run(tools, "rammer-run", artifact, "--inputs", feeds, "--outputs", outputs)
    np.testing.assert_allclose(np.load(outputs)["y"], expected(model, x), rtol=1e-4, atol=1e-4)


def test_the_device_is_one_to_plan_for(tools: Path, model: Path, tmp_path: Path) -> None:
    asked = "from rammer_mlir.extend import find_device; print(find_device('four-cores').units)"
    assert run(tools, "python", "-c", asked) == "4\n"
    artifact = tmp_path / "layer.rammer"
    options = ("--costs", "four-cores", "--veus", "4", "-o", artifact)
    assert "on 4 vEUs" in run(tools, "rammer-compile", model, *options)

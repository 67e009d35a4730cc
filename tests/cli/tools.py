"""Helpers that run the command-line tools in this process, and write small models for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Main = Callable[[Sequence[str] | None], int]


@dataclass(frozen=True)
class Tool:
    """A tool's entry point; what it prints is captured."""

    main: Main
    capture: pytest.CaptureFixture[str]

    def succeed(self, *arguments: str | Path) -> str:
        """Require exit code 0 and no errors; return standard output."""
        code, out, errors = self.run(*arguments)
        assert (code, errors) == (0, "")
        return out

    def fail(self, *arguments: str | Path) -> str:
        """Require exit code 1, one line of error and nothing else; return the message."""
        code, out, errors = self.run(*arguments)
        assert code == 1
        assert out == ""
        assert "internal error" not in errors
        assert errors.startswith("error: ") and errors.count("\n") == 1 and errors.endswith("\n")
        return errors.removeprefix("error: ").rstrip("\n")

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Run the tool; return its exit code, standard output and standard error."""
        self.capture.readouterr()
        code = self.main([str(argument) for argument in arguments])
        out, errors = self.capture.readouterr()
        return code, out, errors


Dims = Sequence[int | str | None]


def save_model(
    path: Path, nodes: Sequence[onnx.NodeProto], shape: Dims = (4, 8), **weights: np.ndarray
) -> Path:
    """Write a model from the float tensor ``x`` to ``y`` of the same shape, and return its path.

    ``weights`` are the initializers by name.
    """
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    initializers = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(list(nodes), "tiny", [x], [y], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("our.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def save_layer(path: Path, shape: Dims = (4, 8)) -> Path:
    """Write the model ``y = relu(x @ w) @ v``; its weights are too large to stay in the IR."""
    w = np.random.default_rng(0).standard_normal((8, 200)).astype(np.float32)
    v = np.random.default_rng(1).standard_normal((200, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["hidden"], name="first"),
        helper.make_node("Relu", ["hidden"], ["positive"], name="relu"),
        helper.make_node("MatMul", ["positive", "v"], ["y"], name="second"),
    ]
    return save_model(path, nodes, shape, w=w, v=v)

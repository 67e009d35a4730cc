"""Tests that ``compile`` accepts models as paths, bytes, files, and other libraries' objects."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import rammer_mlir
from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.digest import model_digest
from rammer_mlir.frontends.onnx.independent_models import together
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.source_folders import ModelWithData
from rammer_mlir.frontends.onnx.sources import source_of
from tests.cli.tools import save_layer

X = np.random.default_rng(2).standard_normal((4, 8)).astype(np.float32)


@dataclass(frozen=True)
class Exported:
    """A stand-in for torch's ONNXProgram, which makes a new proto at each access."""

    path: Path

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The ONNX model, loaded at each access."""
        return onnx.load(self.path)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of an ONNX file of two layers."""
    return save_layer(tmp_path_factory.mktemp("models") / "layer.onnx")


def outputs_of(model: Any) -> np.ndarray:
    """Compile a model of any kind, and run it on ``X``; return its output."""
    with rammer_mlir.compile(model, num_veus=1) as executable:
        return executable(X)


def expected(path: Path) -> np.ndarray:
    """Return the output of the two layers for ``X``, computed in double precision."""
    w, v = (onnx.numpy_helper.to_array(t).astype(float) for t in onnx.load(path).graph.initializer)
    return np.maximum(X @ w, 0) @ v


def second_half(path: Path) -> io.BytesIO:
    """Return an open file with a header, positioned where the model begins."""
    file = io.BytesIO(b"header" + path.read_bytes())
    file.seek(len("header"))
    return file


KINDS: dict[str, Callable[[Path], object]] = {
    "path": lambda path: path,
    "text": str,
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "proto": lambda path: onnx.load(path),
    "file": lambda path: path.open("rb"),
    "memory": second_half,
    "torch": Exported,
    "onnx_ir": lambda path: onnx_ir.load(path),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_of_model_is_compiled(kind: Callable[[Path], object], path: Path) -> None:
    np.testing.assert_allclose(outputs_of(kind(path)), expected(path), rtol=1e-5, atol=1e-4)


def test_weights_in_files_of_an_onnx_ir_model_are_read(path: Path, tmp_path: Path) -> None:
    """Weights of an onnx_ir model that are in external files are read.

    The user's model object still refers to the files afterwards.
    """
    place = tmp_path / "external.onnx"
    onnx.save(
        onnx.load(path), place, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    model = onnx_ir.load(place)
    np.testing.assert_allclose(outputs_of(model), expected(path), rtol=1e-5, atol=1e-4)
    weights = [value.const_value for value in model.graph.initializers.values()]
    assert all(isinstance(weight, onnx_ir.ExternalTensor) for weight in weights)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match="the Model cannot be serialized: ") as caught:
        outputs_of(onnx_ir.load(place))
    assert "\n" not in str(caught.value)


def test_weights_of_an_onnx_ir_model_stay_in_its_memory() -> None:
    """Large weights of an onnx_ir model are not serialized.

    The compile cache, and ``together``, which joins models in one program, still use all weights.
    """
    weights = np.random.default_rng(4).standard_normal((64, 64)).astype(np.float32)
    layer = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> l (float[2, 64] x) => (float[2, 64] y) '
        "{ z = MatMul(x, w) y = Add(z, b) }"
    )
    for name, value in (("w", weights), ("b", weights[0])):
        layer.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    model = onnx_ir.from_proto(layer)
    model.graph.initializers["w"].const_value = onnx_ir.tensor(weights, name="w")
    source = source_of(model)
    assert isinstance(source, ModelWithData) and source.proto.ByteSize() < 2048
    (found,) = [w for w in load(source).weights.values() if w.shape == (64, 64)]
    assert np.shares_memory(found, weights) and not found.flags.writeable
    model.graph.initializers["w"].const_value = onnx_ir.tensor(weights + 1, name="w")
    assert model_digest(source) not in (None, model_digest(source_of(model)))
    x = weights[:2]
    with rammer_mlir.compile(together({"l": model})) as executable:
        expected = x.astype(float) @ (weights + 1) + weights[0]
        np.testing.assert_allclose(executable(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "given",
    [None, 3, ["model.onnx"], SimpleNamespace(model_proto=None), onnx_ir, onnx.GraphProto()],
)
def test_other_things_are_refused(given: Any) -> None:
    with pytest.raises(ModelError) as caught:
        rammer_mlir.compile(given)
    kinds = (
        "path", "bytes", "binary file", "onnx.ModelProto", "ONNXProgram", "onnx_ir.Model",
        "ir.Module",
    )  # fmt: skip
    message = str(caught.value)
    assert all(kind in message for kind in kinds) and "\n" not in message


class Failing:
    """A model of another library that cannot be serialized."""

    @property
    def model_proto(self) -> onnx.ModelProto:
        """Raise an error, as an exporter does."""
        raise RuntimeError("no graph\nwas captured")


def test_a_model_that_cannot_be_serialized() -> None:
    with pytest.raises(ModelError, match=r"^the Failing cannot be serialized: no graph$"):
        rammer_mlir.compile(Failing())


def test_files_of_text_and_closed_ones_are_refused(path: Path) -> None:
    with (
        path.open() as file,
        pytest.raises(ModelError, match=r"expected a binary file, found .*'rb'"),
    ):
        rammer_mlir.compile(file)  # type: ignore[arg-type]
    with path.open("rb") as file:
        pass
    with pytest.raises(ModelError, match=r"cannot read .*closed"):
        rammer_mlir.compile(file)


def test_files_that_hold_no_model_are_refused() -> None:
    with pytest.raises(ModelError, match="is not an ONNX model"):
        rammer_mlir.compile(io.BytesIO(b"no model"))
    text: Any = SimpleNamespace(read=lambda: "text")
    with pytest.raises(ModelError, match="which gives str"):
        rammer_mlir.compile(text)

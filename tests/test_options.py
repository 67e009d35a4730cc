"""What is not even of an option's kind is refused in one line, whoever calls from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import ModelError, OptionError
from rammer_mlir.options import check_options

GIVEN: dict[str, Any] = {"target": "cpu", "policy": "wavefront", "num_veus": 2}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("target", None, "target: expected a name, found None"),
        ("policy", 3, "policy: expected a name, found 3"),
        ("num_veus", "2", "num_veus: expected a whole number, found '2'"),
        ("num_veus", 1.5, "num_veus: expected a whole number, found 1.5"),
        ("num_veus", True, "num_veus: expected a whole number, found True"),
        ("costs", 7, "costs: expected a name or a file, found 7"),
        ("watchdog", None, "watchdog: expected a whole number, found None"),
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


@pytest.mark.parametrize("source", [None, 3, ["model.onnx"]])
def test_a_model_of_another_kind(source: Any) -> None:
    with pytest.raises(ModelError, match="expected a file, its bytes or an ONNX model, found"):
        rammer_mlir.compile(source)

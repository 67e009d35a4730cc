"""Tests that TopK of many elements of long rows is right, and that the host sorts such rows."""

from __future__ import annotations

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.evaluators.host_table import ALL_EVALUATORS
from rammer_mlir.evaluators.operation import Operation
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.programs.host_program import Evaluate
from tests.hosted.hosted_checks import floats, hosted, model_of

LONG = """(float[2,4500] x) => (float[2,1100] y, int64[2,1100] i) {
  k = Constant<value_ints = [1100]>()  z = Mul(x, x)  y, i = TopK(z, k) }"""


def test_the_host_sorts_long_rows() -> None:
    made = hosted(model_of(LONG), [{"x": floats(2, 4500, seed=n)} for n in range(2)])
    kinds = [step.kind for step in made.program.steps if isinstance(step, Evaluate)]
    assert kinds == ["TopK"]


def test_along_an_axis_in_the_middle() -> None:
    text = (
        LONG.replace("2,4500", "4500,2").replace("2,1100", "1100,2").replace("TopK", "TopK<axis=0>")
    )
    hosted(model_of(text), [{"x": floats(4500, 2)}])


def test_one_static_program_refuses_it() -> None:
    with pytest.raises(UnsupportedError, match=r"k is 1100 of 4500 elements.*let the host sort"):
        import_model(model_of(LONG))


@pytest.mark.parametrize("length", [1100, 2000])
def test_one_static_program_sorts_whole_rows(length: int) -> None:
    model = model_of(LONG.replace("4500", str(length)).replace("1100", str(length)))
    x = floats(2, length)
    with rammer_mlir.compile(model, num_veus=1) as executable:
        assert not isinstance(executable, rammer_mlir.HostedModel)
        found = executable.run({"x": x})
    order = np.argsort(-x * x, axis=1, kind="stable")
    np.testing.assert_array_equal(found["i"], order)


def test_the_host_sorts_whole_rows_that_are_longer() -> None:
    hosted(model_of(LONG.replace("1100", "4500")), [{"x": floats(2, 4500)}])


@pytest.mark.parametrize("largest", [0, 1])
def test_few_of_many_are_what_sorting_all_of_them_gives(largest: int) -> None:
    """TopK of few elements equals a whole sort, with equal elements and with NaN.

    NaN is greater than all numbers.
    """
    rng = np.random.default_rng(largest)
    x = rng.integers(0, 40, (3, 600)).astype(np.float32)
    x[0, rng.integers(0, 600, 20)] = np.nan
    x[1] = np.nan
    operands = [x, np.array([50])]
    operation = Operation("TopK", {"largest": largest}, operands, 2)
    values, indices = ALL_EVALUATORS["TopK"](operation)
    keys = np.where(np.isnan(x), 100, x)
    order = np.argsort(-keys if largest else keys, axis=1, kind="stable")[:, :50]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))

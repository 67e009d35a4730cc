"""Tests that sequences and optional values have the types that a model declares for its inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.cli.open_models import given_inputs
from rammer_mlir.errors import InputError
from rammer_mlir.open_models.artifact import described_tensor, read_tensors
from rammer_mlir.programs.dimensions import HostType, OpenTensor
from rammer_mlir.runtime.compiled import RunnableModel
from tests.hosted.hosted_checks import assert_equal, floats, model_of, reference

LENGTHS = """(seq(float[N,3]) s) => (int64 length, float[M,3] y) {
  length = SequenceLength(s)  y = ConcatFromSequence<axis=0>(s) }"""

OPTIONAL = """(optional(float[4]) o) => (float[4] y, bool has) {
  has = OptionalHasElement(o)  none = Constant<value = float[4] {1,2,3,4}>()
  y = If(has)<then_branch = a () => (float[4] p) { p = OptionalGetElement(o) },
              else_branch = b () => (float[4] q) { q = Identity(none) }> }"""


@pytest.fixture(scope="module")
def sequences() -> RunnableModel:
    return rammer_mlir.compile(model_of(LENGTHS), cache=False)


def test_lists_and_tuples(sequences: RunnableModel) -> None:
    """A sequence is a list or a tuple; a symbol of its type may have several sizes."""
    for feeds in ({"s": [floats(2, 3), floats(1, 3)]}, {"s": [floats(1, 3)]}):
        expected = reference(model_of(LENGTHS), feeds)
        assert_equal(sequences.run(feeds), expected)
        assert_equal(sequences.run({"s": tuple(feeds["s"])}), expected)


DTYPE = "element 1 of input 's': expected dtype float32, found"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (floats(2, 2, 3), "input 's': expected a list or tuple of arrays, found ndarray"),
        (None, "input 's': expected a list or tuple of arrays, found NoneType"),
        ([floats(2, 3), np.zeros((2, 3))], f"{DTYPE} float64; convert it with .astype"),
        ([floats(2, 3), np.zeros((2, 3), np.int64)], f"{DTYPE} int64"),
        ([floats(2, 3), "a"], f"{DTYPE} <U1"),
        ([floats(2, 3), None], f"{DTYPE} object"),
        ([[[1.0], [1.0, 2.0]]], "element 0 of input 's': expected an array, found list"),
        ((floats(2, 3), floats(3)), "element 1 of input 's': expected shape Nx3, found 3;"),
        ([floats(2, 4)], "element 0 of input 's': expected shape Nx3, found 2x4;"),
    ],
)
def test_values_that_are_no_sequence(sequences: RunnableModel, given: Any, message: str) -> None:
    with pytest.raises(InputError) as found:
        sequences.run({"s": given})
    assert message in str(found.value) and "\n" not in str(found.value)


def test_optional_values_have_a_type(tmp_path: Path) -> None:
    """A loaded model checks the type too."""
    path = tmp_path / "model.rammer"
    with rammer_mlir.compile(model_of(OPTIONAL, 18), cache=False) as made:
        assert made.run({"o": None})["y"].tolist() == [1, 2, 3, 4]
        assert_equal(made.run({"o": floats(4)}), {"y": floats(4), "has": np.array(True)})
        made.save(path)
    with rammer_mlir.load(path) as loaded:
        for given, message in (
            ([1.0, 2.0, 3.0, 4.0], "input 'o': expected an array or None, found list"),
            (np.zeros(4), "input 'o': expected dtype float32, found float64"),
            (floats(3), "input 'o': expected shape 4, found 3"),
            (floats(1, 4), "input 'o': expected shape 4, found 1x4"),
        ):
            with pytest.raises(InputError, match=message):
                loaded.run({"o": given})


def test_manifests_of_older_versions() -> None:
    """A manifest has the types of sequences; in older manifests they are unknown."""
    kind = HostType(True, True, ("N", 3), np.dtype(ml_dtypes.bfloat16))
    tensor = OpenTensor("s", None, None, is_tensor=False, host_type=kind)
    assert str(tensor) == "'s' optional sequence of Nx3 bfloat16"
    written = json.loads(json.dumps(described_tensor(tensor)))
    assert read_tensors([written]) == (tensor,)
    del written["host_type"]
    assert read_tensors([written]) == (OpenTensor("s", None, None, is_tensor=False),)


def test_files_of_numbers_without_a_name_in_numpy() -> None:
    """Elements of bfloat16, which an ``.npz`` file stores as bytes, get their dtype back."""
    kind = HostType(True, False, None, np.dtype(ml_dtypes.bfloat16))
    spec = OpenTensor("s", None, None, is_tensor=False, host_type=kind)
    element = floats(3).astype(ml_dtypes.bfloat16)
    (found,) = given_inputs([spec], {"s/0": element.view("V2")})["s"]
    assert found.dtype == element.dtype and (found == element).all()

"""Attributes that name and describe arguments are checked before anything reads them."""

from __future__ import annotations

import pytest

import rammer_mlir
from rammer_mlir.errors import RammerError, UnsupportedError


def source(attributes: str, kind: str = "tensor<4xi8>") -> str:
    return (
        f"func.func @f(%a: {kind} {{{attributes}}}) -> {kind} {{\n"
        f"  %r = arith.addi %a, %a : {kind}\n  return %r : {kind}\n}}\n"
    )


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("rtask.name = 4 : i32", "'rtask.name': expected a string, found 4 : i32; change it"),
        ("rtask.dimensions = 3", "'rtask.dimensions': expected a list of strings, found 3"),
        ("rtask.dimensions = [1]", "'rtask.dimensions': expected a list of strings"),
        ('rtask.dtype = "foo"', "'rtask.dtype': expected a type of NumPy .* of i8, found"),
        ('rtask.dtype = "float32"', "'rtask.dtype': expected a type of NumPy .* of i8, found"),
        ('rtask.dtype = "uint16"', "'rtask.dtype': expected a type of NumPy .* of i8, found"),
        ("rtask.constant = 1", "'rtask.constant': expected a string"),
        ('rtask.constant = "w", rtask.value = 1', r"'rtask.value': expected dense<...> or dense_r"),
        ('rtask.constant = "w", rtask.pack = [3]', "'rtask.pack': expected a list of array<i64"),
        ('rtask.constant = "w", rtask.parts = [3]', "'rtask.parts': expected a list of dict"),
    ],
)
def test_attributes_of_another_form_are_refused(attributes: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=f"the module:1:1: .*argument 0: {message}"):
        rammer_mlir.compile(source(attributes), cache=False)


def test_the_sign_of_integers_can_be_named() -> None:
    with rammer_mlir.compile(source('rtask.dtype = "uint8"'), cache=False) as exe:
        assert exe.signature.inputs[0].dtype == "uint8"


def test_packing_that_does_not_fit_its_value_is_refused() -> None:
    held = "rtask.value = dense<1> : tensor<3xi8>, rtask.pack = [array<i64: 5>]"
    message = r"weight 'w': expected 'rtask.pack' of a value of shape \(3,\), found the step \[5\]"
    with pytest.raises(RammerError, match=message):
        rammer_mlir.compile(source(f'rtask.constant = "w", {held}'), cache=False)

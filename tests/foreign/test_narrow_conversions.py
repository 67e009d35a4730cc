"""Conversions of narrow floats round as ml_dtypes does, for all bit patterns and many numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.passes.ir.element_types import NARROW_FLOATS, named_dtype

CODES = np.arange(256, dtype=np.uint8)


def module(source: dict[str, str], to: dict[str, str], size: int) -> str:
    """Return the text of a function that converts arguments of types ``source`` to types ``to``.

    Both map the names of arguments to element types; ``size`` is the length of all tensors.
    """
    arguments = ", ".join(f"%{name}: tensor<{size}x{kind}>" for name, kind in source.items())
    kinds = ", ".join(f"tensor<{size}x{kind}>" for kind in to.values())
    lines = "".join(
        f"  %r{n} = stablehlo.convert %{name} : (tensor<{size}x{source[name]}>) -> "
        f"tensor<{size}x{kind}>\n"
        for n, (name, kind) in enumerate(to.items())
    )
    results = ", ".join(f"%r{n}" for n in range(len(to)))
    return f"func.func @f({arguments}) -> ({kinds}) {{\n{lines}  return {results} : {kinds}\n}}\n"


def converted(text: str, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    with rammer_mlir.compile(text, cache=False) as exe:
        names = [tensor.name for tensor in exe.signature.inputs]
        return list(exe.run(dict(zip(names, inputs, strict=True))).values())


def test_every_code_is_widened_exactly() -> None:
    names = {f"x{n}": kind for n, kind in enumerate(NARROW_FLOATS)}
    text = module(names, dict.fromkeys(names, "f32"), 256)
    widths = {kind: 4 if "f4" in kind else 6 if "f6" in kind else 8 for kind in NARROW_FLOATS}
    given = [
        (CODES & ((1 << widths[kind]) - 1)).view(named_dtype(name))
        for kind, name in NARROW_FLOATS.items()
    ]
    for kind, x, found in zip(NARROW_FLOATS, given, converted(text, given), strict=True):
        np.testing.assert_array_equal(found, x.astype(np.float32), kind)


@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_numbers_are_rounded_to_even(wide: type[np.floating[Any]]) -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(wide)
    numbers = np.concatenate([halves, np.nextafter(halves, wide(np.inf)), halves * wide(2**-9)])
    numbers = np.concatenate([numbers, -numbers, np.array([np.inf, -np.inf], wide)])
    kinds = list(NARROW_FLOATS)
    to = {f"x{n}": kind for n, kind in enumerate(kinds)}
    source = dict.fromkeys(to, "f32" if wide is np.float32 else "f64")
    found = converted(module(source, to, len(numbers)), [numbers] * len(kinds))
    for kind, result in zip(kinds, found, strict=True):
        if kind == "f8E8M0FNU":
            continue  # it has no zero and no sign: below
        expected = numbers.astype(named_dtype(NARROW_FLOATS[kind]))
        np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8), kind)


def test_powers_of_two_are_rounded() -> None:
    x = np.array([1, 1.25, 1.5, 1.75, 3, 2.0**127, 2.0**-126, np.inf, np.nan], np.float32)
    (found,) = converted(module({"x": "f32"}, {"x": "f8E8M0FNU"}, len(x)), [x])
    expected = x.astype(named_dtype("float8_e8m0fnu"))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))

"""Tests of integer arithmetic that overflows, or that makes a processor raise an exception.

An example is division by zero. NumPy's results are the reference, since ONNX does not define them.
A constant divisor of zero is refused at compile time, as in ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from node_checks import check_node, floats, run_node
from onnx import numpy_helper
from test_contradictions import parsed, refusal

SIGNED = [np.int8, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint32]


def pairs(kind: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return dividends and divisors of type ``kind``, as two arrays.

    They are random pairs, and all pairs of extreme numbers such as 0, -1 and the least integer.
    """
    limits = np.iinfo(kind)
    rng = np.random.default_rng(0)
    x, y = rng.integers(limits.min, limits.max, (2, 50), dtype=kind, endpoint=True)
    odd = np.array([0, 1, 2, limits.min, limits.max, *([-1, -2] if limits.min else [])], kind)
    return (
        np.concatenate([x, np.repeat(odd, len(odd))]),
        np.concatenate([y, np.tile(odd, len(odd))]),
    )


@pytest.mark.parametrize("kind", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("constants", [(), (1,)])
def test_quotients(kind: Any, constants: tuple[int, ...]) -> None:
    """Quotients are rounded towards zero; division by zero gives 0.

    The smallest integer divided by -1 is itself.
    """
    x, y = pairs(kind)
    if constants:
        x, y = x[y != 0], y[y != 0]
    with np.errstate(all="ignore"):
        quotient, rest = x // y, x % y
        toward_zero = quotient + ((rest != 0) & ((x < 0) != (y < 0))).astype(kind)
    found = run_node("Div", [x, y], constants=constants)["out0"]
    np.testing.assert_array_equal(found, toward_zero)


@pytest.mark.parametrize("kind", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders(kind: Any, fmod: int) -> None:
    """A remainder has the sign of the divisor, or, with ``fmod``, the sign of the dividend."""
    x, y = pairs(kind)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y) if fmod else np.mod(x, y)
    found = run_node("Mod", [x, y], fmod=fmod)["out0"]
    np.testing.assert_array_equal(found, expected)


def test_constant_divisors_cost_nothing() -> None:
    """Division by a constant has no checks at run time."""
    x = np.arange(-20, 20, dtype=np.int32)
    text = check_node("Div", [x, np.array(3, np.int32)], constants=(1,))
    assert "arith.divsi" in text
    assert "arith.select" not in text


@pytest.mark.parametrize("operator", ["Div", "Mod"])
@pytest.mark.parametrize("kind", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("constants", [("y",), ("x", "y")])
def test_constant_divisors_of_zero(operator: str, kind: str, constants: tuple[str, ...]) -> None:
    """A constant divisor of zero is refused with the node's name.

    The dividend may be constant, too.
    """
    given = {"x": [7, 8, 9], "y": [2, 0, 3]}
    inputs = [f"{kind}[3] {name}" for name in given if name not in constants]
    graph = f"({', '.join(['float[3] z', *inputs])}) => (float[3] w) {{"
    graph += f"q = {operator}(x, y)\n f = Cast<to=1>(q)\n w = Add(f, z) }}"
    model = parsed(graph)
    for name in constants:
        values = np.array(given[name], kind)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    assert refusal(model) == (
        f"'{operator}:q' ({operator}) is not valid: expected a divisor of integers without zeros, "
        "found a constant that holds 0"
    )


def test_a_divisor_that_is_folded_to_zero() -> None:
    """A divisor that is zero after folding, such as a size from a shape, is refused."""
    graph = """(float[4,3] x) => (float[A,B] y) {
      s = Shape(x)
      d = Sub(s, k)
      n = Div(s, d)
      y = Reshape(x, n) }"""
    text = refusal(parsed(graph, k=[4, 1]))
    assert text.startswith("'Div:n' (Div) is not valid: expected a divisor of integers without")


def test_lengths_beyond_the_axis_read_nothing_else() -> None:
    """ReverseSequence clips its lengths to the axis: to its size, and to 0 if negative."""
    x = floats(3, 4)
    lengths = np.array([99, -5, 2, 1 << 40], np.int64)
    found = run_node("ReverseSequence", [x, lengths], batch_axis=1, time_axis=0)["out0"]
    expected = x.copy()
    expected[:, 0], expected[:2, 2], expected[:, 3] = x[::-1, 0], x[1::-1, 2], x[::-1, 3]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("exponents", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_powers_with_large_and_negative_exponents(kind: Any, exponents: Any) -> None:
    """Powers with large or negative exponents equal ONNX Runtime's, rounded towards zero.

    Repeated squaring reads only the low bits of an exponent, which are all zero in 64.
    """
    cases = [
        (0, 64), (0, 65), (0, 128), (1, 64), (1, 1000), (-1, 64), (-1, 65), (0, 0), (5, 0),
        (1, -5), (-1, -1), (-1, -2), (2, -1), (3, -2), (-2, -1), (-3, 3), (2, 30), (-7, 5),
    ]  # fmt: skip
    x, y = np.array(cases).T
    check_node("Pow", [x.astype(kind), y.astype(exponents)])


@pytest.mark.parametrize("exponents", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_overflowing_powers(kind: Any, exponents: Any) -> None:
    """Negative powers of 0 are 0; overflowing powers wrap around.

    From 64 on, only the six low bits of the exponent of an odd number count.
    """
    x = np.array([0, 0, 0, 7, -6, 3, -3, 6, 2, 3, 10, -3])
    y = np.array([-1, -2, -64, -64, -64, 64, 65, 64, 40, 63, 63, 63])
    known = np.array([0, 0, 0, 0, 0, 1, -3, 0])
    wrapped = np.power(x[8:].astype(kind), y[8:].astype(kind))
    found = run_node("Pow", [x.astype(kind), y.astype(exponents)])["out0"]
    np.testing.assert_array_equal(found, [*known, *wrapped])


def test_folded_powers_equal_computed_ones() -> None:
    """A power of constants is not folded if its exponent is too large for the compiled code."""
    base, exponent = np.array([3, 5]), np.array([64, 2])
    found = run_node("Pow", [base, exponent], constants=(0, 1))["out0"]
    np.testing.assert_array_equal(found, [1, 25])

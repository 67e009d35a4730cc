"""Tests that loops that carry tensors are right, also nested loops and large tensors.

Some tensors begin with the values of an argument, others as new tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import UnsupportedError

Array = np.ndarray[Any, Any]

R = np.random.default_rng(7)
T = R.standard_normal((40, 9)).astype(np.float32)
U = R.standard_normal((70, 9)).astype(np.float32)


def loop(count: int, body: str, start: str, name: str, kind: str = "tensor<40x9xf32>") -> str:
    """Return MLIR text of an ``scf.for`` of ``count`` iterations that carries one tensor.

    Args:
        count: number of iterations.
        body: operations of the loop, which may use the state ``%sNAME`` and the counter ``%iNAME``.
        start: the initial value of the state.
        name: the ``NAME`` in the names of values; the loop's result is ``%rNAME``.
        kind: type of the state.
    """
    return f"""
  %n{name} = arith.constant {count} : index
  %r{name} = scf.for %i{name} = %c0 to %n{name} step %c1 iter_args(%s{name} = {start}) -> {kind} {{
{body}
  }}
"""


def element(state: str, row: str, column: str, update: str, name: str) -> str:
    """Return MLIR text that adds an element of ``%u`` to an element of the tensor ``state``.

    Args:
        state: the tensor.
        row: the element's row in the tensor.
        column: the element's column in the tensor and in ``%u``.
        update: the element's row in ``%u``.
        name: the ``NAME`` in ``%xNAME``, the updated tensor.
    """
    return f"""
    %v{name} = tensor.extract %u[{update}, {column}] : tensor<70x9xf32>
    %o{name} = tensor.extract {state}[{row}, {column}] : tensor<40x9xf32>
    %w{name} = arith.addf %v{name}, %o{name} : f32
    %x{name} = tensor.insert %w{name} into {state}[{row}, {column}] : tensor<40x9xf32>
"""


def function(body: str, results: str = "%ra", kinds: str = "tensor<40x9xf32>") -> str:
    """Return MLIR text of a function of the tensors ``%t`` (40 x 9) and ``%u`` (70 x 9).

    ``body`` has its operations; it returns the values ``results`` of the types ``kinds``.
    """
    return f"""
func.func @f(%t: tensor<40x9xf32>, %u: tensor<70x9xf32>) -> ({kinds}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c40 = arith.constant 40 : index
  %zero = arith.constant 0.0 : f32
{body}
  return {results} : {kinds}
}}
"""


def run(text: str, *arrays: Array) -> list[Array]:
    """Compile a function and return its results for the given arguments."""
    with rammer_mlir.compile(text, cache=False) as made:
        return list(made.run(dict(zip(made.input_names, arrays, strict=True))).values())


def nested(start: str) -> str:
    """Return MLIR text of two nested loops: row n of ``%u`` is added to row n modulo 40 of a state.

    ``start`` is the state's initial value. The result is ``%ra``.
    """
    inner = loop(9, element("%sb", "%m", "%ib", "%ia", "b") + "scf.yield %xb : tensor<40x9xf32>",
                 "%sa", "b")  # fmt: skip
    row = "    %m = arith.remui %ia, %c40 : index\n"
    return loop(70, row + inner + "scf.yield %rb : tensor<40x9xf32>", start, "a")


def added(start: Array) -> Array:
    """Return ``start`` plus all rows of ``U``, each added to its row modulo 40, in order."""
    out = start.copy()
    for number, row in enumerate(U):
        out[number % 40] += row
    return out


def test_nested_loops_update_one_state() -> None:
    (found,) = run(function(nested("%t")), T, U)
    np.testing.assert_array_equal(found, added(T))


def test_a_state_that_begins_with_a_new_tensor() -> None:
    zeros = "  %z = tensor.splat %zero : tensor<40x9xf32>\n"
    (found,) = run(function(zeros + nested("%z")), T, U)
    np.testing.assert_array_equal(found, added(np.zeros_like(T)))


def test_an_initial_value_that_others_read() -> None:
    """A loop does not change its initial value if the function also returns that value."""
    kinds = "tensor<40x9xf32>, tensor<40x9xf32>, tensor<40x9xf32>"
    zeros = "  %z = tensor.splat %zero : tensor<40x9xf32>\n"
    first, zero, argument = run(function(zeros + nested("%z"), "%ra, %z, %t", kinds), T, U)
    np.testing.assert_array_equal(first, added(np.zeros_like(T)))
    np.testing.assert_array_equal(zero, np.zeros_like(T))
    np.testing.assert_array_equal(argument, T)


def test_an_inner_loop_with_a_state_of_its_own() -> None:
    """The inner loop begins with the argument each time; the outer loop keeps its last result."""
    inner = loop(9, element("%sb", "%m", "%ib", "%ia", "b") + "scf.yield %xb : tensor<40x9xf32>",
                 "%t", "b")  # fmt: skip
    row = "    %m = arith.remui %ia, %c40 : index\n"
    text = loop(70, row + inner + "scf.yield %rb : tensor<40x9xf32>", "%t", "a")
    (found,) = run(function(text), T, U)
    expected = T.copy()
    expected[69 % 40] += U[69]
    np.testing.assert_array_equal(found, expected)


def test_two_states_that_change_places() -> None:
    kind = "tensor<40x9xf32>"
    body = f"""
  %n = arith.constant 71 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %t, %q = %t) -> ({kind}, {kind}) {{
    %m = arith.remui %i, %c40 : index
    %o = tensor.extract %p[%m, %c0] : {kind}
    %w = arith.addf %o, %o : f32
    %x = tensor.insert %w into %p[%m, %c0] : {kind}
    scf.yield %q, %x : {kind}, {kind}
  }}"""
    found = run(function(body, "%r#0, %r#1", f"{kind}, {kind}"), T, U)
    p, q = T.copy(), T.copy()
    for number in range(71):
        p[number % 40, 0] *= 2
        p, q = q, p
    np.testing.assert_array_equal(found[0], p)
    np.testing.assert_array_equal(found[1], q)


def test_a_loop_in_a_while_loop() -> None:
    kind = "tensor<40x9xf32>"
    text = nested("%s").replace("%na", "%nw").replace("%ra =", "%y =")
    text = text.replace("arith.constant 70", "arith.constant 70")
    body = f"""
  %limit = arith.constant 3 : index
  %ra, %count = scf.while (%p = %t, %k = %c0) : ({kind}, index) -> ({kind}, index) {{
    %more = arith.cmpi slt, %k, %limit : index
    scf.condition(%more) %p, %k : {kind}, index
  }} do {{
  ^bb0(%s: {kind}, %k: index):
{text}
    %next = arith.addi %k, %c1 : index
    scf.yield %y, %next : {kind}, index
  }}"""
    (found,) = run(function(body), T, U)
    np.testing.assert_array_equal(found, added(added(added(T))))


@pytest.mark.parametrize("start", ["%t", "%z"])
def test_states_larger_than_a_stack(start: str) -> None:
    """A state of 8 MB, which begins with the argument or with zeros, needs no second buffer."""
    text = f"""
func.func @f(%t: tensor<2000000xf32>, %u: tensor<100xf32>) -> tensor<2000000xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  %z = tensor.splat %zero : tensor<2000000xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = {start}) -> tensor<2000000xf32> {{
    %j = arith.muli %i, %i : index
    %v = tensor.extract %u[%i] : tensor<100xf32>
    %o = tensor.extract %s[%j] : tensor<2000000xf32>
    %w = arith.addf %v, %o : f32
    %x = tensor.insert %w into %s[%j] : tensor<2000000xf32>
    scf.yield %x : tensor<2000000xf32>
  }}
  return %r : tensor<2000000xf32>
}}
"""
    t, u = R.standard_normal(2_000_000).astype(np.float32), U.reshape(-1)[:100]
    (found,) = run(text, t, u)
    expected = t.copy() if start == "%t" else np.zeros_like(t)
    expected[np.arange(100) ** 2] += u
    np.testing.assert_array_equal(found, expected)


def test_a_state_that_is_read_after_its_change_is_refused_with_advice() -> None:
    inner = """
    %q = scf.for %j = %c0 to %i step %c1 iter_args(%p = %s) -> tensor<40x9xf32> {
      %old = tensor.extract %s[%c0, %j] : tensor<40x9xf32>
      %y = tensor.insert %old into %p[%j, %c0] : tensor<40x9xf32>
      scf.yield %y : tensor<40x9xf32>
    }
    scf.yield %q : tensor<40x9xf32>"""
    body = inner.replace("%i ", "%ia ").replace("%s", "%sa")
    message = r"the module:\d+:\d+: .*read it before the change, or carry a copy of it"
    with pytest.raises(UnsupportedError, match=message):
        run(function(loop(70, body, "%t", "a")), T, U)

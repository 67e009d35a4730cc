"""Tests that rKernels that providers offer become candidates, and that wrong offers are refused."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError
from rammer_mlir.extend import OfferedOperator
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS

OPERATOR = """
func.func private @copy(%x: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "rtask.operator"(%x) {kernels = [@copy]} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""

DESCRIPTION = """
"rtask.kernel"() {function = @mine, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}]
} : () -> ()
"""

FUNCTION = """
func.func @mine(%id: index, %x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%out : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

GOOD = DESCRIPTION + FUNCTION


class Given:
    """A provider that offers the rKernels that a test passes to its constructor."""

    name: ClassVar[str] = "given"

    def __init__(self, *offers: Any) -> None:
        """Take modules, texts of modules and wrong objects as offers, or one function to call."""
        self._offers = offers

    def offer(self, operator: OfferedOperator) -> Sequence[Any]:
        """Return the offers, with texts parsed, or the result of the given function."""
        if any(map(callable, self._offers)):
            (function,) = self._offers
            return function(operator)
        return [ir.Module.parse(o) if isinstance(o, str) else o for o in self._offers]


def tile(*offers: Any, options: str = "") -> str:
    """Run ``rtask-tile`` on ``OPERATOR``; return the text of the tiled module.

    The provider ``Given`` makes the ``offers``; ``options`` is text of other options of the pass.
    """
    KERNEL_PROVIDERS.register("given", Given(*offers))
    try:
        context = ir.Context()
        dialects.register(context)
        with context, ir.Location.unknown():
            module = ir.Module.parse(OPERATOR)
            run_pipeline(module, f"builtin.module(rtask-tile{{providers=given {options}}})")
            return str(module)
    finally:
        KERNEL_PROVIDERS.unregister("given")


def test_offers_become_candidates_behind_the_compilers_own() -> None:
    text = tile(GOOD, GOOD)
    assert "@copy_t0" in text
    assert text.index("@copy_t0, @copy_given_0, @copy_given_1") > 0
    assert "func.func private @copy_given_1(" in text
    assert "@mine" not in text


def test_no_offer_adds_nothing() -> None:
    assert "kernels = [@copy_t0]" in tile()


REFUSED: dict[str, tuple[Any, str]] = {
    "no module": (3, "expected an ir.Module, found int"),
    "a module alone": (
        lambda operator: ir.Module.create(),  # pyright: ignore[reportUnknownLambdaType]
        "provider 'given': expected a list of ir.Module, found Module; mend it, or leave it out",
    ),
    "empty": ("", "expected one func.func .* and its rtask.kernel, found none"),
    "no description": (FUNCTION, "its rtask.kernel, found func.func; mend it"),
    "two functions": (GOOD + FUNCTION.replace("mine", "b"), "found func.func, func.func, rtask.k"),
    "other type": (
        GOOD.replace("4xf32", "8xf32").replace("i64: 4>", "i64: 8>"),
        r"expected \(index, tensor<4xf32>, tensor<4xf32>\) -> tensor<4xf32>, found \(index, tens",
    ),
    "uncovered": (
        GOOD.replace("i64: 4>", "i64: 3>"),
        r"failed with MLIRError: 'rtask.kernel' op expected every element of argument 1",
    ),
    "no function": (DESCRIPTION, "failed with MLIRError: 'rtask.kernel' op expected .*@mine"),
    "an exit": (
        lambda operator: sys.exit(0),  # pyright: ignore[reportUnknownLambdaType]
        "provider 'given' failed with SystemExit: 0; mend it, or leave it out",
    ),
    "no text": ("no IR", "provider 'given' failed with MLIRError: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_offers_that_are_refused(case: str) -> None:
    offer, message = REFUSED[case]
    with pytest.raises(PassError, match=message) as refused:
        tile(offer)
    assert str(refused.value).startswith("'func.func'") and "\n" not in str(refused.value)


def test_a_module_of_another_context_is_refused() -> None:
    context = ir.Context()
    dialects.register(context)
    with context:
        foreign = ir.Module.parse(GOOD)
    with pytest.raises(PassError, match="expected a module of the operator's context"):
        tile(foreign)


def test_an_offer_keeps_to_the_memory_of_a_veu() -> None:
    with pytest.raises(PassError, match=r"expected rTasks that touch at most 16 bytes.* found 32"):
        tile(GOOD, options="memory=16")

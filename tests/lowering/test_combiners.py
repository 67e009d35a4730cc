"""Tests that the combiners of reductions are found, and that each has the right identity."""

from __future__ import annotations

import math

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.kernels.combiners import COMBINERS, Combiner, find_combiners
from rammer_mlir.passes.ir.structured import Structured

SOURCE = """
func.func @f(%x: memref<8xELEMENT>, %y: memref<ELEMENT>) {
  %zero = arith.constant 0 : i8
  linalg.generic {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> ()>],
                  iterator_types = ["reduction"]}
      ins(%x : memref<8xELEMENT>) outs(%y : memref<ELEMENT>) {
  ^bb0(%a: ELEMENT, %c: ELEMENT):
    BODY
    linalg.yield %r : ELEMENT
  }
  return
}
"""

BOOLEAN = """%s = arith.cmpi ne, %c, %zero : i8
    %b = arith.cmpi ne, %a, %zero : i8
    %o = arith.ori %s, %b : i1
    %r = arith.extui %o : i1 to i8"""


def found(element: str, body: str) -> list[tuple[str, bool]] | None:
    """Return the name and ``is_boolean`` of each combiner that is found in a reduction's body.

    ``body`` is the MLIR text of the body, and ``element`` its element type. Return None if the body
    is not a reduction by known combiners.
    """
    with ir.Context():
        module = ir.Module.parse(SOURCE.replace("ELEMENT", element).replace("BODY", body))
        operations = module.body.operations[0].operation.regions[0].blocks[0].operations
        combiners = find_combiners(Structured(operations[1]))
        return None if combiners is None else [(c.name, c.is_boolean) for c in combiners]


def test_combiners_are_found() -> None:
    assert found("f16", "%r = arith.addf %a, %c : f16") == [("arith.addf", False)]
    assert found("i64", "%r = arith.maxui %c, %a : i64") == [("arith.maxui", False)]
    assert found("i8", BOOLEAN) == [("arith.ori", True)]
    # Partial results of differences are added.
    assert found("f32", "%r = arith.subf %c, %a : f32") == [("arith.addf", False)]
    assert found("i8", "%r = arith.subi %c, %a : i8") == [("arith.addi", False)]


@pytest.mark.parametrize(
    "body",
    [
        "%r = arith.subi %a, %c : i8",
        "%r = arith.addi %c, %c : i8",
        "%s = arith.addi %c, %a : i8\n    %r = arith.addi %s, %c : i8",
        "%s = arith.addi %c, %a : i8\n    %r = arith.muli %s, %s : i8",
        "%r = arith.addi %a, %a : i8",
        BOOLEAN.replace("cmpi ne, %c", "cmpi eq, %c"),
        BOOLEAN.replace("%c, %zero", "%c, %a"),
        BOOLEAN.replace("extui", "extsi"),
    ],
)
def test_other_bodies_have_none(body: str) -> None:
    assert found("i8", body) is None


@pytest.mark.parametrize("bits", [1, 8, 16, 32, 64])
@pytest.mark.parametrize("name", [n for n in COMBINERS if not n.endswith("f")])
def test_integer_identities(name: str, bits: int) -> None:
    """A combiner's identity combined with a number gives that number, also at the type's limits."""
    with ir.Context(), ir.Location.unknown():
        kind = ir.IntegerType.get_signless(bits)
        identity = _constant(Combiner(name, {}, kind).identity())
    mask = (1 << bits) - 1
    for number in {0, 1, mask, 1 << (bits - 1), mask >> 1, 0x5A & mask}:
        assert _fold(name, int(identity) & mask, number, bits) == number


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_float_identities(element: str) -> None:
    with ir.Context(), ir.Location.unknown():
        kind = ir.Type.parse(element)
        zero = _constant(Combiner("arith.addf", {}, kind).identity())
        most = _constant(Combiner("arith.minimumf", {}, kind).identity())
        none = _constant(Combiner("arith.maxnumf", {}, kind).identity())
    assert zero == 0 and math.copysign(1, zero) == -1  # -0.0 + -0.0 is -0.0
    assert most == math.inf and math.isnan(none)


def test_booleans_start_from_bytes() -> None:
    with ir.Context(), ir.Location.unknown():
        byte = ir.IntegerType.get_signless(8)
        starts = [
            _constant(Combiner(f"arith.{name}", {}, byte, is_boolean=True).identity())
            for name in ("ori", "andi", "xori", "maxsi", "minui")
        ]
    assert starts == [0, 1, 0, 1, 1]


def _constant(value: ir.Value) -> float:
    """Return the number of the ``arith.constant`` whose result is ``value``."""
    owner = value.owner
    assert not isinstance(owner, ir.Block)
    given = owner.operation.attributes["value"]
    if isinstance(given, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return given.value
    raise AssertionError(f"expected a number, found {given}")


def _fold(name: str, left: int, right: int, bits: int) -> int:
    """Evaluate the operation ``name``, such as ``arith.addi``, on two integers of ``bits`` bits.

    Operands and result are unsigned numbers that have the bits of the integers.
    """
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    signed = [(n & mask) - ((n & half) << 1) for n in (left, right)]
    results = {
        "arith.addi": left + right, "arith.muli": left * right,
        "arith.maxsi": max(signed), "arith.minsi": min(signed),
        "arith.maxui": max(left, right), "arith.minui": min(left, right),
        "arith.andi": left & right, "arith.ori": left | right, "arith.xori": left ^ right,
    }  # fmt: skip
    return results[name] & mask

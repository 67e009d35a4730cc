"""Tests that the ranges of integers contain all values that operations compute."""

from __future__ import annotations

import random

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import arith, func, ir
from rammer_mlir.passes.ir.integer_ranges import IntegerRanges
from rammer_mlir.passes.rtask_widen_indices import may_exceed

_OPERATIONS = ("AddIOp", "SubIOp", "MulIOp", "MinSIOp", "MaxSIOp", "RemSIOp", "RemUIOp",
               "DivSIOp", "DivUIOp", "FloorDivSIOp", "CeilDivSIOp", "CeilDivUIOp",
               "AndIOp", "OrIOp", "XOrIOp", "ShRUIOp", "MaxUIOp", "MinUIOp")  # fmt: skip


def _signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def _value(name: str, x: int, y: int, bits: int = 64) -> int:
    """Return the result of an operation on two signed integers of ``bits`` bits."""
    a, b = x % (1 << bits), y % (1 << bits)
    sign = -1 if (x < 0) != (y < 0) else 1
    results = {
        "AddIOp": x + y, "SubIOp": x - y, "MulIOp": x * y, "MinSIOp": min(x, y),
        "MaxSIOp": max(x, y), "AndIOp": x & y, "OrIOp": x | y, "XOrIOp": x ^ y,
        "MaxUIOp": max(a, b), "MinUIOp": min(a, b),
    }  # fmt: skip
    if name in results:
        return _signed(results[name], bits)
    if name == "ShRUIOp":
        return _signed(a >> b, bits) if b < bits else 0  # undefined: any value
    if not y:
        return 0  # undefined: any value
    quotients = {
        "DivSIOp": sign * (abs(x) // abs(y)),
        "RemSIOp": x - y * sign * (abs(x) // abs(y)),
        "DivUIOp": a // b,
        "RemUIOp": a % b,
        "FloorDivSIOp": x // y,
        "CeilDivSIOp": -(-x // y),
        "CeilDivUIOp": -(-a // b),
    }
    return _signed(quotients[name], bits)


@pytest.mark.parametrize("seed", range(60))
def test_ranges_contain_the_values(seed: int) -> None:
    """Random expressions over small and large constants and selections between them."""
    rng = random.Random(seed)
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.create()
        index, boolean = ir.IndexType.get(), ir.IntegerType.get_signless(1)
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([boolean], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            values: list[tuple[ir.Value, set[int]]] = []
            pairs: list[tuple[ir.OpView, str, set[int], set[int]]] = []
            for _ in range(4):
                pair = [rng.choice([rng.randint(-9, 9), rng.randint(-(1 << 40), 1 << 40)])
                        for _ in range(2)]  # fmt: skip
                first, second = (arith.ConstantOp(index, number).result for number in pair)
                chosen = arith.select(block.arguments[0], first, second)
                values.append((chosen, set(pair)))
            for _ in range(12):
                name = rng.choice(_OPERATIONS)
                (x, xs), (y, ys) = rng.choice(values), rng.choice(values)
                if "Div" in name or "Rem" in name:
                    ys = ys - {0}
                if name == "ShRUIOp":
                    ys = {y for y in ys if 0 <= y < 32}
                results = {_value(name, a, b) for a in xs for b in ys}
                operation = getattr(arith, name)(x, y)
                if results and len(results) < 200:
                    values.append((operation.result, results))
                    pairs.append((operation, name, xs, ys))
            func.ReturnOp([])
        ranges = IntegerRanges()
        for operation, name, xs, ys in pairs:
            if not may_exceed(operation.operation, ranges):
                assert all(_value(name, x, y, 32) == _value(name, x, y) for x in xs for y in ys)
        for value, possible in values:
            found = ranges.of(value)
            if found is not None:
                assert found[0] <= min(possible) and max(possible) <= found[1], str(value.owner)

"""Tests that the ranges of integers contain all values that operations compute."""

from __future__ import annotations

import random

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import arith, func, ir
from rammer_mlir.passes.ir.integer_ranges import IntegerRanges

_OPERATIONS = ("AddIOp", "SubIOp", "MulIOp", "MinSIOp", "MaxSIOp", "RemSIOp", "RemUIOp",
               "DivSIOp", "DivUIOp", "FloorDivSIOp", "CeilDivSIOp", "CeilDivUIOp")  # fmt: skip
_WRAP = 1 << 64


def _signed(value: int) -> int:
    value %= _WRAP
    return value - _WRAP if value >= _WRAP // 2 else value


def _value(name: str, x: int, y: int) -> int:
    """Return the result of an operation on two signed 64-bit integers."""
    a, b = x % _WRAP, y % _WRAP
    sign = -1 if (x < 0) != (y < 0) else 1
    results = {
        "AddIOp": x + y, "SubIOp": x - y, "MulIOp": x * y, "MinSIOp": min(x, y),
        "MaxSIOp": max(x, y),
    }  # fmt: skip
    if name in results:
        return _signed(results[name])
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
    return _signed(quotients[name])


@pytest.mark.parametrize("seed", range(30))
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
                results = {_value(name, a, b) for a in xs for b in ys}
                operation = getattr(arith, name)(x, y)
                if results and len(results) < 200:
                    values.append((operation.result, results))
            func.ReturnOp([])
        ranges = IntegerRanges()
        for value, possible in values:
            found = ranges.of(value)
            if found is not None:
                assert found[0] <= min(possible) and max(possible) <= found[1], str(value.owner)

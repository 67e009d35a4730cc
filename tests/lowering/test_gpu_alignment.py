"""Tests that the alignment that GPU code assumes of an address is right.

The alignment must hold for every rTask of an rKernel.
"""

from __future__ import annotations

from typing import Any

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.alignment import address_alignment

KINDS = {
    "its own": ("memref<8x8xf32>", "16", 16),
    "less": ("memref<8x8xf32>", "8", 8),
    "an offset of one": ("memref<8x8xf32, strided<[12, 1], offset: 1>>", "16", 4),
    "an offset of two": ("memref<8x8xf32, strided<[12, 1], offset: 2>>", "16", 8),
    "an offset of four": ("memref<8x8xf32, strided<[12, 1], offset: 4>>", "16", 16),
    "any offset": ("memref<8x8xf32, strided<[12, 1], offset: ?>>", "16", 4),
}


@pytest.mark.parametrize(("kind", "alignment", "expected"), KINDS.values(), ids=KINDS)
def test_arguments(kind: str, alignment: str, expected: int) -> None:
    """An argument's alignment is that of its address plus the offset in its type."""
    text = f"func.func @k(%x: {kind} {{rtask.alignment = {alignment} : i64}}) {{ return }}"
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module: Any = ir.Module.parse(text)
        argument = module.body.operations[0].regions[0].blocks[0].arguments[0]
        assert address_alignment(argument) == expected


@pytest.mark.parametrize(("alignment", "start", "expected"), [(16, 32, 16), (4, 32, 4), (16, 8, 8)])
def test_views_of_bytes(alignment: int, start: int, expected: int) -> None:
    """A view's alignment is the smaller of its buffer's alignment and its start's alignment."""
    text = f"""
func.func @k(%x: memref<1024xi8> {{rtask.alignment = {alignment} : i64}}) {{
  %start = arith.constant {start} : index
  %view = memref.view %x[%start][] : memref<1024xi8> to memref<8x8xf32>
  return
}}"""
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module: Any = ir.Module.parse(text)
        body = module.body.operations[0].regions[0].blocks[0]
        assert address_alignment(body.operations[1].operation.results[0]) == expected

"""Emulates AMD's matrix instruction ``v_mfma_f32_16x16x16``, lane by lane.

Lane l of a wave has these elements, with i = l mod 16 and j = 4 floor(l / 16) (AMD's CDNA 3
instruction set, dense matrix layouts):

- of row i of A, the elements with k from j to j + 3,
- of column i of B, the elements with k from j to j + 3,
- of column i of the result, rows j to j + 3.

Products are exact in f32, and sums accumulate along k in order; a GPU's order is unspecified.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, func, ir, llvm, vector
from rammer_mlir.emulation.codegen.i64_language import Exchange, constant_word, i64
from rammer_mlir.emulation.records import Lane

OPERATIONS = {
    "rocdl.mfma.f32.16x16x16f16": "f16",
    "rocdl.mfma.f32.16x16x16bf16.1k": "bf16",
}
"""By the name of an emulated instruction: the element type of the factors."""

LANES = 64
_LINES = 16
_EACH = 4


def multiply_and_add(operation: ir.Operation, exchange: Exchange) -> ir.Value:
    """Emit one lane's computation of a matrix instruction; return the vector of its four results.

    ``exchange`` emits the read of another lane's elements.
    """
    a, b, result = operation.operands
    kinds = {"f16": ir.F16Type.get, "bf16": ir.BF16Type.get}
    element = kinds[OPERATIONS[operation.name]]()
    lane = func.CallOp([i64()], "emulator_lane_word", [constant_word(Lane.LANE)]).results[0]
    lane = arith.remui(lane, constant_word(LANES))
    column, first = (
        arith.remui(lane, constant_word(_LINES)),
        arith.divui(lane, constant_word(_LINES)),
    )
    own_column = _line(b, column, element, exchange)
    for n in range(_EACH):
        row = arith.addi(arith.muli(first, constant_word(_EACH)), constant_word(n))
        total = vector.extract(result, [], [n])
        for x, y in zip(_line(a, row, element, exchange), own_column, strict=True):
            total = arith.addf(total, arith.mulf(x, y))
        result = vector.insert(total, result, [], [n])
    return result


def _line(
    fragment: ir.Value, line: ir.Value, element: ir.Type, exchange: Exchange
) -> list[ir.Value]:
    """Emit and return row ``line`` of A or column ``line`` of B as f32, in the order of k.

    ``fragment`` has the running lane's elements of A or B, of type ``element``; ``exchange`` emits
    the read of another lane's elements.
    """
    word = llvm.bitcast(i64(), fragment)
    found: list[ir.Value] = []
    for part in range(LANES // _LINES):
        source = arith.addi(line, constant_word(part * _LINES))
        values = llvm.bitcast(ir.VectorType.get([_EACH], element), exchange(word, source))
        for n in range(_EACH):
            found.append(arith.extf(ir.F32Type.get(), vector.extract(values, [], [n])))
    return found

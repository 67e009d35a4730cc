"""Tensor-core operations: ``mma.sync`` and ``ldmatrix``, lane by lane.

Each lane of a warp holds a fragment of each matrix, laid out as PTX says (parallel thread execution
ISA, matrix fragments for ``mma.m16n8k16`` with f16 and bf16). The emulated lanes exchange fragments
by shuffles, and each computes its own four results: products are exact in f32, sums go along k in
order, where a GPU's order and rounding are its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rammer_mlir.bindings import arith, func, ir, llvm, vector
from rammer_mlir.emulated import Lane
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.emulation.async_copies import address_of_element

MMA, LOAD = "nvgpu.mma.sync", "nvgpu.ldmatrix"

_SHAPE = (16, 8, 16)
_WARP = 32

Exchange = Callable[[Any, Any], Any]
"""``(i64 word, source lane as i64) -> word of that lane``."""


def mma(operation: Any, exchange: Exchange) -> Any:
    """Emit what ``nvgpu.mma.sync`` computes, and return its fragment.

    Raises:
        UnsupportedError: for other shapes and types than f16 or bf16 to f32.
    """
    a, b, c = operation.operands
    shape = tuple(
        ir.IntegerAttr(size).value for size in ir.ArrayAttr(operation.attributes["mmaShape"])
    )
    element = a.type.element_type
    narrow = isinstance(element, ir.F16Type | ir.BF16Type)
    if shape != _SHAPE or not narrow or not isinstance(c.type.element_type, ir.F32Type):
        raise UnsupportedError(
            f"emulation of {MMA}: expected f16 or bf16 of shape {list(_SHAPE)} added to f32, found "
            f"{element} of shape {list(shape)} added to {c.type.element_type}"
        )
    lane = _lane_in_warp()
    row, pair = _shifted(lane, 2), arith.andi(lane, _word(3))
    rows = _rows_of_a(a, row, exchange)
    columns = [_column_of_b(b, pair, n, exchange) for n in range(2)]
    result = c
    for half in range(2):
        for n in range(2):
            total = vector.extract(c, [], [half, n])
            for x, y in zip(rows[half], columns[n], strict=True):
                total = arith.addf(total, arith.mulf(x, y))
            result = vector.insert(total, result, [], [half, n])
    return result


def _rows_of_a(a: Any, row: Any, exchange: Exchange) -> list[list[Any]]:
    """Return the 16 elements of the lane's row of A, and of the row eight further, as f32."""
    words = [_packed(a, 0), _packed(a, 2)]
    found: list[list[list[Any]]] = [[], []]
    for word in words:  # k below 8, then from 8 on
        for t in range(4):
            source = arith.addi(arith.muli(row, _word(4)), _word(t))
            values = _unpacked(exchange(word, source), a.type.element_type)
            found[0].append(values[:2])
            found[1].append(values[2:])
    return [[value for pair in half for value in pair] for half in found]


def _column_of_b(b: Any, pair: Any, n: int, exchange: Exchange) -> list[Any]:
    """Return the 16 elements of one of the lane's two columns of B, as f32."""
    word = _packed(b, 0)
    column = arith.addi(arith.muli(pair, _word(2)), _word(n))
    low: list[Any] = []
    high: list[Any] = []
    for t in range(4):
        source = arith.addi(arith.muli(column, _word(4)), _word(t))
        values = _unpacked(exchange(word, source), b.type.element_type)
        low += values[:2]
        high += values[2:]
    return low + high


def _packed(fragment: Any, first: int) -> Any:
    """Return two registers of a fragment, two elements each, as one word."""
    kind = ir.VectorType.get([4], fragment.type.element_type)
    elements = [vector.extract(fragment, [], [first + n // 2, n % 2]) for n in range(4)]
    return llvm.bitcast(_i64(), vector.from_elements(kind, elements))


def _unpacked(word: Any, element: Any) -> list[Any]:
    values = llvm.bitcast(ir.VectorType.get([4], element), word)
    single = ir.F32Type.get()
    return [arith.extf(single, vector.extract(values, [], [n])) for n in range(4)]


def load_matrices(operation: Any, exchange: Exchange, site: int) -> Any:
    """Emit what ``nvgpu.ldmatrix`` loads: matrices of 8 by 8 elements of 16 bits.

    Lane 8 j + i gives the address of row i of matrix j. A lane gets two neighbours of a row, or,
    transposed, of a column.
    """
    source, *indices = operation.operands
    address, _ = address_of_element(source, indices, 2)
    func.CallOp([], "emulator_aligned", [address, _word(16), _word(site)])
    lane = _lane_in_warp()
    row, pair = _shifted(lane, 2), arith.andi(lane, _word(3))
    transposed = ir.BoolAttr(operation.attributes["transpose"]).value
    kind = operation.results[0].type
    elements: list[Any] = []
    for matrix in range(kind.shape[0]):
        for n in range(2):
            along = arith.addi(arith.muli(pair, _word(2)), _word(n))
            line, place = (along, row) if transposed else (row, along)
            begin = exchange(address, arith.addi(line, _word(8 * matrix)))
            at = arith.addi(begin, arith.muli(place, _word(2)))
            pointer = llvm.inttoptr(ir.Type.parse("!llvm.ptr"), at)
            elements.append(llvm.load(kind.element_type, pointer))
    return vector.from_elements(kind, elements)


def _lane_in_warp() -> Any:
    word = func.CallOp([_i64()], "emulator_lane_word", [_word(Lane.LANE)]).results[0]
    return arith.remui(word, _word(_WARP))


def _shifted(word: Any, places: int) -> Any:
    return arith.shrui(word, _word(places))


def _i64() -> Any:
    return ir.IntegerType.get_signless(64)


def _word(number: int) -> Any:
    return arith.constant(_i64(), number)

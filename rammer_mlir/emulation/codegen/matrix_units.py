"""Emulates tensor-core operations, ``mma.sync`` and ``ldmatrix``, lane by lane.

Each lane of a warp has a fragment of each matrix, in the layout of PTX (parallel thread execution
ISA, matrix fragments for ``mma.m16n8k16`` with f16 and bf16, for ``mma.m16n8k8`` with tf32). The
emulated lanes exchange fragments by shuffles, and each lane computes four elements of the result.
Products are exact in f32, and sums accumulate along k in order; a GPU's order and rounding are
unspecified. For tf32, the lowest 13 bits of an f32 are ignored, as on a GPU; ``round_to_tf32``
rounds to nearest.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, func, ir, llvm, vector
from rammer_mlir.emulation.codegen.async_copies import address_of_element
from rammer_mlir.emulation.codegen.i64_language import Exchange, constant_word, i64
from rammer_mlir.emulation.records import Lane
from rammer_mlir.errors import UnsupportedError

MMA, LOAD = "nvgpu.mma.sync", "nvgpu.ldmatrix"

TF32 = "nvvm.convert.float.to.tf32"
OPERATIONS = (MMA, LOAD, TF32)

_STEPS = {"f16": 16, "bf16": 16, "f32": 8}
_DROPPED = 13
"""Number of low bits of an f32's mantissa that tf32 does not have."""

_WARP = 32


def mma(operation: ir.Operation, exchange: Exchange) -> ir.Value:
    """Emit one lane's computation of an ``nvgpu.mma.sync``; return the lane's part of the result.

    ``exchange`` emits the read of another lane's fragments.

    Raises:
        UnsupportedError: unless the factors are f16 or bf16 of shape [16, 8, 16] or tf32 of shape
            [16, 8, 8], and sums are f32.
    """
    a, b, c = operation.operands
    shape = tuple(
        ir.IntegerAttr(size).value for size in ir.ArrayAttr(operation.attributes["mmaShape"])
    )
    element, sum_element = _element_type(a), _element_type(c)
    steps = _STEPS.get(str(element))
    if shape != (16, 8, steps) or not isinstance(sum_element, ir.F32Type):
        raise UnsupportedError(
            f"emulation of {MMA}: expected f16 or bf16 of shape [16, 8, 16], or tf32 of shape "
            f"[16, 8, 8], added to f32, found {element} of shape {list(shape)} added to "
            f"{sum_element}"
        )
    lane = _lane_in_warp()
    row, pair = _shifted(lane, 2), arith.andi(lane, constant_word(3))
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


def _rows_of_a(a: ir.Value, row: ir.Value, exchange: Exchange) -> list[list[ir.Value]]:
    """Emit and return the elements of rows ``row`` and ``row + 8`` of A as f32.

    The result has two lists, one for each row, in the order of k. ``a`` is the running lane's
    fragment of A, and ``exchange`` emits the read of another lane's fragment.
    """
    words = [_packed(a, 0), _packed(a, 2)]
    found: list[list[list[ir.Value]]] = [[], []]
    for word in words:  # the first half of k, then the second
        for t in range(4):
            source = arith.addi(arith.muli(row, constant_word(4)), constant_word(t))
            values = _unpacked(exchange(word, source), _element_type(a))
            half = len(values) // 2
            found[0].append(values[:half])
            found[1].append(values[half:])
    return [[value for pair in half for value in pair] for half in found]


def _column_of_b(b: ir.Value, pair: ir.Value, n: int, exchange: Exchange) -> list[ir.Value]:
    """Emit and return column ``2 * pair + n`` of B as f32, in the order of k; ``n`` is 0 or 1.

    ``b`` is the running lane's fragment of B, and ``exchange`` emits the read of another lane's
    fragment.
    """
    word = _packed(b, 0)
    column = arith.addi(arith.muli(pair, constant_word(2)), constant_word(n))
    low: list[ir.Value] = []
    high: list[ir.Value] = []
    for t in range(4):
        source = arith.addi(arith.muli(column, constant_word(4)), constant_word(t))
        values = _unpacked(exchange(word, source), _element_type(b))
        low += values[: len(values) // 2]
        high += values[len(values) // 2 :]
    return low + high


def _element_type(fragment: ir.Value) -> ir.Type:
    return ir.VectorType(fragment.type).element_type


def _packed(fragment: ir.Value, first: int) -> ir.Value:
    """Emit and return an i64 that packs two 32-bit registers of a lane's fragment.

    The registers have the indices ``first`` and ``first + 1``.
    """
    each = ir.VectorType(fragment.type).shape[1]
    kind = ir.VectorType.get([2 * each], _element_type(fragment))
    places = [[first + register, n] for register in range(2) for n in range(each)]
    elements = [vector.extract(fragment, [], place) for place in places]
    return llvm.bitcast(i64(), vector.from_elements(kind, elements))


def _unpacked(word: ir.Value, element: ir.Type) -> list[ir.Value]:
    assert isinstance(element, ir.FloatType)
    single, count = ir.F32Type.get(), 64 // element.width
    values = llvm.bitcast(ir.VectorType.get([count], element), word)
    elements = [vector.extract(values, [], [n]) for n in range(count)]
    if count == 2:
        return [_from_bits(_without_last_bits(_bits(value))) for value in elements]
    return [arith.extf(single, value) for value in elements]


def round_to_tf32(operation: ir.Operation) -> ir.Value:
    """Emit the rounding of an f32 to tf32, to nearest with ties away from zero; NaN stays NaN.

    Raises:
        UnsupportedError: if ``operation`` has another rounding mode.
    """
    if "rna" not in str(operation.attributes["rnd"]):
        raise UnsupportedError(
            f"emulation of {TF32}: expected rounding 'rna', found {operation.attributes['rnd']}"
        )
    value = operation.operands[0]
    half = arith.constant(_i32(), 1 << (_DROPPED - 1))
    rounded = _without_last_bits(arith.addi(_bits(value), half))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, value, value)
    return arith.select(is_nan, arith.constant(_i32(), 0x7FFFFFFF), rounded)


def _without_last_bits(bits: ir.Value) -> ir.Value:
    return arith.andi(bits, arith.constant(_i32(), -(1 << _DROPPED)))


def _bits(value: ir.Value) -> ir.Value:
    return arith.bitcast(_i32(), value)


def _from_bits(bits: ir.Value) -> ir.Value:
    return arith.bitcast(ir.F32Type.get(), bits)


def _i32() -> ir.IntegerType:
    return ir.IntegerType.get_signless(32)


def load_matrices(operation: ir.Operation, exchange: Exchange, site: int) -> ir.Value:
    """Emit a lane's loads of an ``nvgpu.ldmatrix``, and return the lane's fragment.

    The matrices have 8 by 8 elements of 16 bits. Lane 8 j + i has the address of row i of matrix j;
    ``exchange`` emits the read of another lane's address. From each matrix, a lane loads two
    adjacent elements of a row or, if transposed, of a column. ``site`` is the site index for
    faults.
    """
    source, *indices = operation.operands
    address, _ = address_of_element(source, indices, 2)
    func.CallOp([], "emulator_aligned", [address, constant_word(16), constant_word(site)])
    lane = _lane_in_warp()
    row, pair = _shifted(lane, 2), arith.andi(lane, constant_word(3))
    transposed = ir.BoolAttr(operation.attributes["transpose"]).value
    kind = ir.VectorType(operation.results[0].type)
    elements: list[ir.Value] = []
    for matrix in range(kind.shape[0]):
        for n in range(2):
            along = arith.addi(arith.muli(pair, constant_word(2)), constant_word(n))
            line, place = (along, row) if transposed else (row, along)
            begin = exchange(address, arith.addi(line, constant_word(8 * matrix)))
            at = arith.addi(begin, arith.muli(place, constant_word(2)))
            pointer = llvm.inttoptr(ir.Type.parse("!llvm.ptr"), at)
            elements.append(llvm.load(kind.element_type, pointer))
    return vector.from_elements(kind, elements)


def _lane_in_warp() -> ir.Value:
    word = func.CallOp([i64()], "emulator_lane_word", [constant_word(Lane.LANE)]).results[0]
    return arith.remui(word, constant_word(_WARP))


def _shifted(word: ir.Value, places: int) -> ir.Value:
    return arith.shrui(word, constant_word(places))

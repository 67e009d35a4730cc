"""Emits sums of products of 8-bit integers, by instructions that add four adjacent products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rammer_mlir.bindings import arith, ir, llvm, memref, vector
from rammer_mlir.lowering.cpu.vectorize.body import Body, Broadcast, Values
from rammer_mlir.lowering.cpu.vectorize.memory import Mask
from rammer_mlir.lowering.cpu.vectorize.memory import broadcast as broadcast_to
from rammer_mlir.lowering.cpu.vectorize.operands import Jump, Operand
from rammer_mlir.lowering.kernels.affine import Index, as_value, constant
from rammer_mlir.lowering.llvm.machine import MULTIPLY_WORDS, VNNI
from rammer_mlir.passes.contractions.byte_product import TERMS, extensions_of
from rammer_mlir.passes.ir.structured import Structured

_VNNI = "llvm.x86.avx512.vpdpbusd"
"""LLVM's name of vpdpbusd (AVX-512 VNNI, AVX-VNNI) without its suffix, the register's bits."""

_MULTIPLY_WORDS = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}
"""LLVM's name of pmaddwd by the register's bits."""

_WORK = {VNNI: 1.0, MULTIPLY_WORDS: 4.0}
"""Cost of an instruction on four terms, in multiply-adds, by the instruction's name."""

_ONE_REGISTER = 4
"""Lanes of 32 bits in the smallest register, which multiplies two scalar words."""


class ByteProductBody(Body):
    """The body of a sum of products of 8-bit integers, computed by dot-product instructions.

    ``emit`` takes four adjacent integers of each factor as one 32-bit word. A dot-product
    instruction multiplies the four pairs of integers in two words, and adds the products to an i32.
    ``instruction`` is its name, as in ``Machine.byte_products``.
    """

    def __init__(self, generic: Structured, instruction: str) -> None:
        super().__init__(generic, contract=False)
        self._instruction = instruction
        signs = extensions_of(generic)
        assert signs is not None
        self._is_reversed = not signs[0]

    @property
    def vectorizable(self) -> bool:
        """True: dot-product instructions work on vectors."""
        return True

    @property
    def work(self) -> float:
        """Estimated cost of adding the products of four pairs of bytes, in multiply-adds.

        On vectors, each 32-bit lane has four pairs, and the unit is a multiply-add of vectors.
        """
        return _WORK[self._instruction]

    def emit(
        self, values: Values, lanes: int, broadcast: Broadcast, mask: Mask | None = None
    ) -> list[ir.Value]:
        """Emit the accumulator plus the products of four pairs of bytes; return the sum.

        The result is a list with this sum only.

        Args:
            values: the values by slot, first the two factors, as 32-bit words of four bytes, and
                the accumulator.
            lanes: count of 32-bit lanes of the vectors.
            broadcast: function that broadcasts a word to all lanes.
            mask: not used, because the body gathers no elements.
        """
        left, right, total = values[: self.arguments]
        assert left is not None and right is not None and total is not None
        unsigned, signed = (right, left) if self._is_reversed else (left, right)
        if any(isinstance(value.type, ir.VectorType) for value in (unsigned, signed, total)):
            terms = self._terms(unsigned, signed, lanes, broadcast)
            return [self._added(broadcast(total), terms, lanes)]
        lanes = _ONE_REGISTER

        def everywhere(value: ir.Value) -> ir.Value:
            return broadcast_to(value, lanes)

        terms = self._terms(unsigned, signed, lanes, everywhere)
        found = self._added(everywhere(total), terms, lanes)
        return [vector.extract(found, [], [0])]

    def _terms(
        self, unsigned: ir.Value, signed: ir.Value, lanes: int, broadcast: Broadcast
    ) -> list[tuple[ir.Value, ir.Value]]:
        """Emit the operands of the instruction: pairs of an unsigned and a signed factor.

        For vpdpbusd, the result is one pair of vectors of bytes. For pmaddwd, it is two pairs of
        vectors of 16-bit elements: a pair of the even bytes, and a pair of the odd bytes.
        """
        if self._instruction == VNNI:
            return [(_bytes(broadcast(unsigned), lanes), _bytes(broadcast(signed), lanes))]
        words = broadcast(signed)
        halves = _halves(words, lanes)
        eight = _splat(halves.type, 8)
        signed_terms = (
            arith.shrsi(arith.shli(halves, eight), eight),
            arith.shrsi(halves, eight),
        )
        mask, shift = (_like(unsigned.type, number) for number in (0x00FF00FF, 8))
        unsigned_terms = (
            arith.andi(unsigned, mask),
            arith.andi(arith.shrui(unsigned, shift), mask),
        )
        return [
            (_halves(broadcast(u), lanes), s)
            for u, s in zip(unsigned_terms, signed_terms, strict=True)
        ]

    def _added(
        self, total: ir.Value, terms: Sequence[tuple[ir.Value, ir.Value]], lanes: int
    ) -> ir.Value:
        bits, kind = 32 * lanes, total.type
        if self._instruction == VNNI:
            ((unsigned, signed),) = terms
            return _call(kind, f"{_VNNI}.{bits}", [total, unsigned, signed])
        for pair in terms:
            total = arith.addi(total, _call(kind, _MULTIPLY_WORDS[bits], pair))
        return total


def _call(kind: ir.Type, name: str, operands: Sequence[ir.Value]) -> ir.Value:
    return llvm.call_intrinsic(kind, name, list(operands), [], [])


def _bytes(words: ir.Value, lanes: int) -> ir.Value:
    return vector.bitcast(_vector(4 * lanes, 8), words)


def _halves(words: ir.Value, lanes: int) -> ir.Value:
    return vector.bitcast(_vector(2 * lanes, 16), words)


def _vector(lanes: int, bits: int) -> ir.Type:
    return ir.VectorType.get([lanes], ir.IntegerType.get_signless(bits))


def _splat(kind: ir.Type, number: int) -> ir.Value:
    element = ir.IntegerAttr.get(ir.VectorType(kind).element_type, number)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, element))


def _like(kind: ir.Type, number: int) -> ir.Value:
    """Emit the constant ``number`` of type ``kind``, in all lanes if it is a vector type."""
    return _splat(kind, number) if isinstance(kind, ir.VectorType) else arith.constant(kind, number)


def in_words(operand: Operand, terms: int) -> Operand | None:
    """Emit and return a view of an operand of bytes as 32-bit words of four bytes.

    Return None if the bytes of a word are not adjacent in memory, or if a stride is not a whole
    number of words. ``terms`` is the index of the loop of four iterations over the bytes of a word.
    """
    jumps = [_word(jump.distance) for jump in operand.jumps]
    strides = [0 if d == terms else _word(s) for d, s in enumerate(operand.strides)]
    if operand.is_scalar or operand.results is not None or operand.strides[terms] != 1:
        return None
    known = [stride for stride in strides if stride is not None]
    if len(known) < len(strides) or None in jumps:
        return None
    flat = operand.value
    kind = ir.MemRefType(flat.type)
    (length,) = kind.shape
    word = ir.IntegerType.get_signless(32)
    size: Index = length // TERMS
    if ir.ShapedType.is_dynamic_size(length):
        size = arith.divui(memref.dim(flat, constant(0)), constant(TERMS))
    dynamic = ir.ShapedType.get_dynamic_size()
    target = ir.MemRefType.get([dynamic], word, None, kind.memory_space)
    view = memref.ViewOp(target, flat, as_value(operand.offset), [as_value(size)]).result
    moved = [
        Jump(j.loop, d, j.width) for j, d in zip(operand.jumps, jumps, strict=True) if d is not None
    ]
    return replace(
        operand, value=view, element=word, offset=0, strides=known, dim_strides=[], jumps=moved
    )


def _word(distance: Index) -> int | None:
    """Return a distance in 32-bit words, given the distance in bytes.

    Return None if the distance is dynamic or not a whole number of words.
    """
    if not isinstance(distance, int) or distance % TERMS:
        return None
    return distance // TERMS

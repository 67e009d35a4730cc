"""Matches contractions of 8-bit integers, whose bodies extend both factors to i32."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured, plain_dim

TERMS = 4
"""The number of products of adjacent 8-bit integers that a dot-product instruction adds to an i32.

An example is ``vpdpbusd`` of AVX-512 VNNI.
"""

EXTENSIONS = {"arith.extsi": False, "arith.extui": True}
"""By the name of an extending operation: whether its operand is an unsigned integer."""


@dataclass(frozen=True)
class ByteProduct:
    """A contraction of unsigned with signed 8-bit integers; one of the two factors is a weight.

    Attributes:
        op: the contraction.
        data, weight: the operand indices of the data and of the weight: 0 and 1, or 1 and 0.
        inner: the index of the reduction loop that indexes the last dimension of the data and a
            dimension of the weight.
        lane: the index of the loop over the columns or channels of the result: the last loop in
            ``loops`` that does not index the data.
        loops: for each dimension of the weight, the index of the loop that indexes it.
    """

    op: Structured
    data: int
    weight: int
    inner: int
    lane: int
    loops: tuple[int, ...]


def find_byte_product(op: Structured, weights: Container[ir.Value]) -> ByteProduct | None:
    """Return the contraction of 8-bit data with an 8-bit weight that an operation computes.

    Return None for any other operation. ``weights`` are the values known at compile time.
    """
    if not multiplies_bytes(op):
        return None
    for data, weight in ((0, 1), (1, 0)):
        loops = op.operand_dims(weight)
        if op.inputs[weight] not in weights or op.inputs[data] in weights or not loops:
            continue
        read = op.maps[data].results
        inner = plain_dim(read[-1]) if len(read) else None
        own = [loop for loop in loops if loop not in op.used_loops[data]]
        if (
            own
            and inner in loops
            and not op.parallel[inner]
            and op.parallel[own[-1]]
            and len(set(loops)) == len(loops)
        ):
            return ByteProduct(op, data, weight, inner, own[-1], tuple(loops))
    return None


def extensions_of(op: Structured) -> tuple[bool | None, bool | None] | None:
    """Return how the body of a multiply-accumulate in i32 extends each of its two inputs.

    For each input: True if it is extended from an unsigned i8, False from a signed i8, None if it
    is not extended. The result is None instead of a pair if the body computes something else.
    """
    if op.is_elementwise or (len(op.maps), op.num_outputs) != (3, 1):
        return None
    added = defined_by(op.yielded[0], "arith.addi")
    if added is None or str(added.results[0].type) != "i32":
        return None
    left, right, total = op.arguments
    terms = [value for value in added.operands if value != total]
    product = defined_by(terms[0], "arith.muli") if len(terms) == 1 else None
    if product is None:
        return None
    found: dict[ir.Value, bool | None] = {}
    for operand in product.operands:
        owner = operand.owner
        if isinstance(owner, ir.Block):
            found[operand] = None
        elif owner.name in EXTENSIONS and str(owner.operands[0].type) == "i8":
            found[owner.operands[0]] = EXTENSIONS[owner.name]
    is_all = set(found) == {left, right}
    extended = sum(sign is not None for sign in found.values())
    return (found[left], found[right]) if is_all and len(op.body) == 2 + extended else None


def multiplies_bytes(op: Structured) -> bool:
    """Whether an operation is a contraction of unsigned with signed 8-bit integers."""
    signs = extensions_of(op)
    return signs is not None and None not in signs and signs[0] != signs[1]


def adds_adjacent_terms(op: Structured) -> bool:
    """Whether a dot-product instruction can compute the innermost reduction of an operation.

    The operation has to be a contraction of unsigned with signed 8-bit integers, and a reduction
    loop of ``TERMS`` (4) iterations has to index the last dimension of both factors.
    """
    if not multiplies_bytes(op):
        return False
    last = {plain_dim(map_.results[-1]) if len(map_.results) else None for map_ in op.maps[:2]}
    loop = next(iter(last))
    return (
        len(last) == 1 and loop is not None and not op.parallel[loop] and op.extents[loop] == TERMS
    )


def defined_by(value: ir.Value, name: str) -> ir.Operation | None:
    """Return the operation named ``name`` that defines ``value``; None if there is none."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != name else owner.operation

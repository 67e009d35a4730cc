"""Reads contractions of 8-bit integers, whose bodies extend both factors to i32."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured, plain_dim

TERMS = 4
"""The number of adjacent terms that a dot-product instruction adds to an i32."""

EXTENSIONS = {"arith.extsi": False, "arith.extui": True}
"""Whether an extension reads unsigned integers, by its name."""


@dataclass(frozen=True)
class ByteProduct:
    """A contraction of unsigned and signed 8-bit integers, one of the factors a weight.

    Attributes:
        op: the contraction.
        data, weight: the numbers of the operands, 0 and 1.
        inner: the reduction loop that indexes the last dimension of the data and a dimension of
            the weight.
        lane: the last loop that indexes the weight and not the data.
        loops: the loop of each dimension of the weight.
    """

    op: Structured
    data: int
    weight: int
    inner: int
    lane: int
    loops: tuple[int, ...]


def find_byte_product(op: Structured, weights: Container[ir.Value]) -> ByteProduct | None:
    """Return the product of 8-bit integers that an operation computes; None for another operation.

    ``weights`` are the values known at compile time.
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
    """Return for both inputs how a body that adds their product in i32 extends them.

    True for an extension of an unsigned, False of a signed integer; None for no extension. None
    instead of the pair if the body computes something else.
    """
    if (len(op.maps), op.num_outputs) != (3, 1) or op.is_elementwise:
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
    """Whether an operation is a contraction of unsigned and signed 8-bit integers."""
    signs = extensions_of(op)
    return signs is not None and None not in signs and signs[0] != signs[1]


def adds_adjacent_terms(op: Structured) -> bool:
    """Whether an operation is a product of 8-bit integers whose innermost terms are adjacent.

    A reduction loop of ``TERMS`` steps indexes the last dimension of both factors, one of which is
    unsigned and the other signed.
    """
    if not multiplies_bytes(op):
        return False
    last = {plain_dim(map_.results[-1]) if len(map_.results) else None for map_ in op.maps[:2]}
    loop = next(iter(last))
    return (
        len(last) == 1 and loop is not None and not op.parallel[loop] and op.extents[loop] == TERMS
    )


def defined_by(value: ir.Value, name: str) -> ir.Operation | None:
    """Return the operation ``name`` that defines a value; None if another one does."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != name else owner.operation

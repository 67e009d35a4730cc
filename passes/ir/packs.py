"""Emits and matches ``linalg.pack`` and ``linalg.unpack``, which store a dimension in blocks."""

from __future__ import annotations

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.passes.ir.structured import shape_of

BLOCK = 16
"""The number of channels in a block: one AVX-512 register of f32, or two of AVX2."""

PACK, UNPACK = "linalg.pack", "linalg.unpack"


def blocked_type(kind: ir.Type, dim: int) -> ir.Type:
    """Return the type of a tensor of type ``kind`` with dimension ``dim`` stored in blocks of 16.

    Dimension ``dim`` of C elements becomes C / 16, and a last dimension of 16 is added.
    """
    ranked = ir.RankedTensorType(kind)
    shape = list(ranked.shape)
    shape[dim] //= BLOCK
    return ir.RankedTensorType.get([*shape, BLOCK], ranked.element_type)


def pack(value: ir.Value, dim: int) -> ir.Value:
    """Emit a ``linalg.pack`` of ``value`` into blocks along ``dim``, and return its result."""
    kind = blocked_type(value.type, dim)
    return linalg.PackOp(kind, value, _empty(kind), [dim], [], [BLOCK]).result


def unpack(value: ir.Value, kind: ir.Type, dim: int) -> ir.Value:
    """Emit a ``linalg.unpack`` of ``value``, which is in blocks along ``dim``; return the result.

    ``kind`` is the type of the result.
    """
    return linalg.UnPackOp(kind, value, _empty(kind), [dim], [], [BLOCK]).result


def packed_dim(op: ir.OpView) -> int | None:
    """Return the dimension that a ``linalg.pack`` or ``linalg.unpack`` stores in blocks of 16.

    Return None for any other operation, and for packs with padding, a permutation, several blocked
    dimensions or blocks of another size.
    """
    operation = op.operation
    if operation.name not in (PACK, UNPACK) or len(operation.operands) != 2:
        return None
    tiles, dims, order = (
        list(ir.DenseI64ArrayAttr(operation.attributes[name]))
        if name in operation.attributes
        else []
        for name in ("static_inner_tiles", "inner_dims_pos", "outer_dims_perm")
    )
    plain = operation.operands[0] if operation.name == PACK else operation.results[0]
    if tiles != [BLOCK] or order != sorted(order) or shape_of(plain)[dims[0]] % BLOCK:
        return None
    return dims[0]


def _empty(kind: ir.Type) -> ir.Value:
    ranked = ir.RankedTensorType(kind)
    return tensor.EmptyOp(list(ranked.shape), ranked.element_type).result

"""Marks rOperators with an attribute: the indices of their chain and of their chunk in the chain.

A chain of rOperators can be computed in chunks, which are independent of one another. A schedule
limits how many chunks of a chain are in progress at a time, so that their intermediates stay in the
cores' caches.
"""

from __future__ import annotations

from collections.abc import Iterable

from rammer_mlir.bindings import ir
from rammer_mlir.scheduling.chunk_turns import Chunk

CHUNK = "rtask.chunk"
"""Attribute of an ``rtask.operator``: the indices of its chain and of its chunk in the chain."""


def chunk_of(op: ir.Operation) -> Chunk | None:
    """Return the index of an rOperator's chain, and of its chunk in the chain.

    A chunk computes a part of the results of a chain of dependent rOperators.

    Return None if the rOperator belongs to no chunk.
    """
    if CHUNK not in op.attributes:
        return None
    chain, number = ir.DenseI64ArrayAttr(op.attributes[CHUNK])
    return chain, number


def mark_chunk(ops: Iterable[ir.Operation], chain: int, number: int) -> None:
    """Mark the rOperators among ``ops`` as members of chunk ``number`` of chain ``chain``.

    A chunk computes a part of the results of a chain of dependent rOperators.
    """
    for op in ops:
        if op.name == "rtask.operator":
            op.attributes[CHUNK] = ir.DenseI64ArrayAttr.get([chain, number])

"""Vectorizes the ``linalg.generic`` ops of rKernels into register-tiled ``vector`` loops.

MLIR's own vectorizer needs static tiles that earlier passes must have cut and padded, and produces
multi-dimensional vectors whose later unrolling determines the speed: a small change of a shape can
halve the speed. Here every op is vectorized in the same three steps:

1. ``nest`` reads the op as a loop nest over flat memory.
2. ``register_blocking`` chooses the micro tile by a cost model.
3. ``emit`` emits exactly those loops and registers.

All three support dynamic sizes, strided and gathered accesses, and remainders.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.emit import NestEmitter
from rammer_mlir.lowering.cpu.vectorize.epilogue import Epilogue, find_epilogue
from rammer_mlir.lowering.cpu.vectorize.fills import fill_scalar, known_fills
from rammer_mlir.lowering.cpu.vectorize.nest import Nest
from rammer_mlir.lowering.cpu.vectorize.register_blocking import plan_tile
from rammer_mlir.lowering.cpu.vectorize.transform import TransformEmitter, find_transform
from rammer_mlir.lowering.ir_walk import walk

# Memoized: rKernels of a model often have equal loop nests.
_plan = cache(plan_tile)


def vectorize_kernels(
    module: ir.Module, vector_bits: int, registers: int = 0, byte_products: str = ""
) -> None:
    """Replace every ``linalg.generic`` on memrefs in ``module`` by loops on vectors.

    Named linalg ops and ``memref.copy`` must have been generalized before. The results are those of
    the scalar loops, except for the order of sums along the lanes and for fused multiply-adds.

    Args:
        module: the module.
        vector_bits: width of a vector register in bits.
        registers: maximum count of vector registers of a micro tile; 0 for the default.
        byte_products: name of the instruction for products of 8-bit integers: ``vpdpbusd`` or
            ``pmaddwd``; empty for none.
    """
    generics = [o for o in walk(module.operation) if o.name == "linalg.generic"]
    epilogues: dict[ir.Operation, Epilogue] = {}
    # In reverse, so that the fill before a reduction still exists when it is folded.
    while generics:
        operation = generics.pop()
        found = find_epilogue(operation)
        if found is not None:
            reduction, epilogue = found
            epilogues[reduction] = epilogue
            continue
        epilogue = epilogues.get(operation)
        for fill in vectorize_generic(operation, vector_bits, epilogue, registers, byte_products):
            generics.remove(fill)
            fill.erase()


def vectorize_generic(
    operation: ir.Operation,
    vector_bits: int,
    epilogue: Epilogue | None = None,
    registers: int = 0,
    byte_products: str = "",
) -> list[ir.Operation]:
    """Replace a ``linalg.generic`` on memrefs, and its epilogue if any, by loops on vectors.

    Returns the preceding ``linalg.fill`` operations that are no longer needed, because the loops
    initialize their accumulators with the filled scalars; the caller must erase these operations.
    ``vector_bits``, ``registers`` and ``byte_products`` are those of ``vectorize_kernels``.
    """
    last = operation if epilogue is None else epilogue.operation
    with ir.InsertionPoint(last), operation.location:
        fills = known_fills(operation)
        nest = Nest(operation, epilogue, byte_products)
        initial = [None if fill is None else fill_scalar(fill) for fill in fills]
        transform = find_transform(nest, initial, vector_bits)
        if transform is not None:
            TransformEmitter(nest, transform, initial).emit()
        else:
            described = nest.describe(vector_bits, [fill is not None for fill in fills])
            few = min(registers or described.registers, described.registers)
            plan = _plan(replace(described, registers=few))
            NestEmitter(nest, plan, initial).emit()
    if epilogue is not None:
        epilogue.operation.erase()
    operation.erase()
    return [fill for fill in fills if fill is not None]

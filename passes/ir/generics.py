"""Emits ``linalg.generic`` operations and their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from rammer_mlir.bindings import arith, ir, linalg, tensor


def indexing_maps(maps: Iterable[ir.AffineMap]) -> ir.ArrayAttr:
    """Return the attribute ``indexing_maps`` of a generic; inputs' maps precede outputs' maps."""
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps])


def iterator_types(parallel: Iterable[bool]) -> ir.ArrayAttr:
    """Return the attribute ``iterator_types`` of a generic; False stands for a reduction."""
    kinds = ("parallel" if each else "reduction" for each in parallel)
    return ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{k}>") for k in kinds])


def generic(
    inputs: Sequence[ir.Value],
    output: ir.Value,
    maps: Sequence[ir.AffineMap],
    parallel: Iterable[bool],
) -> ir.OpView:
    """Emit a ``linalg.generic`` with one result and an empty region, and return it.

    ``maps`` are the indexing maps of inputs, then of the output; ``parallel`` is True for each
    parallel loop and False for each reduction loop.
    """
    return linalg.GenericOp(
        [output.type], list(inputs), [output], indexing_maps(maps), iterator_types(parallel)
    )


def splat(scalar: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Emit a tensor of a static shape whose elements all equal ``scalar``, and return it."""
    empty = tensor.EmptyOp(list(shape), scalar.type).result
    return linalg.fill(scalar, outs=[empty])


def sum_of_products(
    factors: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    parallel: Iterable[bool],
    shape: Sequence[int],
) -> ir.Value:
    """Emit a contraction: the product of all factors, summed over the reduction loops; return it.

    Every sum starts at zero.

    Args:
        factors: tensors of the same floating-point type, which is also the type of the result.
        maps: the indexing maps of the factors and the result.
        parallel: for each loop, whether it is parallel (else a reduction).
        shape: the shape of the result.
    """
    element = ir.RankedTensorType(factors[0].type).element_type
    start = splat(arith.constant(element, 0.0), shape)
    op = generic(factors, start, maps, parallel)
    body = op.regions[0].blocks.append(*[element] * len(maps))
    with ir.InsertionPoint(body):
        *elements, total = body.arguments
        linalg.YieldOp([arith.addf(total, reduce(arith.mulf, elements))])
    return op.results[0]


def transposed(
    source: ir.Value, shape: Sequence[int], read: Sequence[int], written: Sequence[int]
) -> ir.Value:
    """Emit a transposing copy of ``source``, and return the copy.

    Args:
        source: the tensor to copy.
        shape: the shape of the copy.
        read: for each dimension of ``source``, the index of the loop that indexes it.
        written: for each dimension of the copy, the index of the loop that indexes it.
    """
    maps = [
        ir.AffineMap.get(len(loops), 0, [ir.AffineExpr.get_dim(loop) for loop in loops])
        for loops in (read, written)
    ]
    return _copy(source, shape, maps)


def copied(source: ir.Value, shape: Sequence[int], exprs: Sequence[ir.AffineExpr]) -> ir.Value:
    """Emit a copy of ``source`` with elements rearranged to the given shape, and return it.

    ``exprs`` has, for each dimension of ``source``, the index of the element to copy, as an
    expression in the indices of an element of the copy.
    """
    identity = ir.AffineMap.get_identity(len(shape))
    return _copy(source, shape, [ir.AffineMap.get(len(shape), 0, list(exprs)), identity])


def _copy(source: ir.Value, shape: Sequence[int], maps: Sequence[ir.AffineMap]) -> ir.Value:
    element = ir.RankedTensorType(source.type).element_type
    empty = tensor.EmptyOp(list(shape), element).result
    copy = generic([source], empty, maps, [True] * len(shape))
    body = copy.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(body):
        linalg.YieldOp([body.arguments[0]])
    return copy.results[0]

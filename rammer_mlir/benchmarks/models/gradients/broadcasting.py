"""Compute the adjoint of broadcasting: sum gradients over the dimensions that were broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph


def sum_to(g: ExtendedGraph, gradient: Value, shape: Sequence[int]) -> Value:
    """Return the gradient of an operand that was broadcast.

    Args:
        g: the graph, to which nodes are added.
        gradient: gradient of the broadcast operand.
        shape: the operand's shape. ``gradient`` is summed over the axes along which the operand was
            broadcast, so the result has this shape.
    """
    added = len(gradient.shape) - len(shape)
    axes = [*range(added)]
    axes += [
        added + axis
        for axis, size in enumerate(shape)
        if size == 1 and gradient.shape[added + axis] != 1
    ]
    summed = g.reduced("ReduceSum", gradient, axes)
    return summed if summed.shape == tuple(shape) else g.reshape(summed, *shape)

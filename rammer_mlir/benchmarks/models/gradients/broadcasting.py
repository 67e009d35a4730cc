"""Compute the adjoint of broadcasting: sum gradients over the dimensions that were broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph


def sum_to(g: ExtendedGraph, gradient: Value, shape: Sequence[int]) -> Value:
    """Sum a gradient over the axes along which an operand was broadcast.

    ``shape`` is the shape of the operand and of the result, which is the operand's gradient.
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

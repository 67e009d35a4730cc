"""Finds the builder of an ONNX operator."""

from __future__ import annotations

from rammer_mlir.frontends.onnx.builders import (
    batch_normalization,
    convolutions,
    cumulative,
    determinant,
    einsum,
    elementwise,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    reductions,
    resizing,
    sampling,
    scattering,
    shaping,
    sliding,
    sorting,
    spectral,
    unpooling,
)
from rammer_mlir.frontends.onnx.builders.node import Builder, Node

FAMILIES = (
    batch_normalization.BUILDERS,
    convolutions.BUILDERS,
    cumulative.BUILDERS,
    determinant.BUILDERS,
    einsum.BUILDERS,
    elementwise.BUILDERS,
    indexing.BUILDERS,
    normalization.BUILDERS,
    pooling.BUILDERS,
    products.BUILDERS,
    quantization.BUILDERS,
    reductions.BUILDERS,
    resizing.BUILDERS,
    sampling.BUILDERS,
    scattering.BUILDERS,
    shaping.BUILDERS,
    sliding.BUILDERS,
    sorting.BUILDERS,
    spectral.BUILDERS,
    unpooling.BUILDERS,
)

BUILDERS: dict[str, Builder] = {
    operator: builder for family in FAMILIES for operator, builder in family.items()
}


def find_builder(node: Node) -> Builder | None:
    """Return the builder of a node; None if torch-mlir imports the node (the fallback import)."""
    return BUILDERS.get(node.op_type)

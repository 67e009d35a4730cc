"""Which contrib operators have a rewriting function."""

from __future__ import annotations

import onnx

from rammer_mlir.frontends.onnx.contrib import (
    activations,
    attention,
    normalization,
    products,
    quantization,
    rotary,
)
from rammer_mlir.frontends.onnx.contrib.call import CONTRIB_DOMAIN
from rammer_mlir.frontends.onnx.contrib.rule import Rule

RULES: dict[str, Rule] = {
    **activations.RULES,
    **attention.RULES,
    **normalization.RULES,
    **products.RULES,
    **quantization.RULES,
    **rotary.RULES,
}


def has_rule(node: onnx.NodeProto) -> bool:
    """Whether a node is of a contrib operator that is written out."""
    return node.domain == CONTRIB_DOMAIN and node.op_type in RULES

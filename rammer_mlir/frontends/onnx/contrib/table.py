"""Finds the rule of a contrib operator."""

from __future__ import annotations

import onnx

from rammer_mlir.frontends.onnx.contrib import (
    activations,
    attention,
    features,
    grouped,
    normalization,
    products,
    quantization,
    recurrent,
    rotary,
    support_vectors,
    trees,
)
from rammer_mlir.frontends.onnx.contrib.call import CONTRIB_DOMAIN
from rammer_mlir.frontends.onnx.contrib.rule import Rule

RULES: dict[str, Rule] = {
    **activations.RULES,
    **attention.RULES,
    **grouped.RULES,
    **normalization.RULES,
    **products.RULES,
    **quantization.RULES,
    **recurrent.RULES,
    **rotary.RULES,
}

ML_DOMAIN = "ai.onnx.ml"

ML_RULES: dict[str, Rule] = {**features.RULES, **support_vectors.RULES, **trees.RULES}
"""Rules of ai.onnx.ml, ONNX's domain of classical machine learning, by operator."""

_DOMAINS = {CONTRIB_DOMAIN: RULES, ML_DOMAIN: ML_RULES}


def has_rule(node: onnx.NodeProto) -> bool:
    """Return whether the table of rules has a rule for a node's domain and operator."""
    return node.op_type in _DOMAINS.get(node.domain, {})


def rule_of(node: onnx.NodeProto) -> Rule:
    """Return the rule of a node; the table must have a rule for it."""
    return _DOMAINS[node.domain][node.op_type]

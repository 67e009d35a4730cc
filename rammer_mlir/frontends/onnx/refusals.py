"""Operators that can never be compiled, found before anything is made of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS

_REASONS: Mapping[str, tuple[str, ...]] = {
    "results are random": (
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ),
    "sequences are not tensors": (
        "ConcatFromSequence",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
    ),
    "optional values are not tensors": (
        "Optional",
        "OptionalGetElement",
        "OptionalHasElement",
    ),
    "strings and encoded images are not numbers": (
        "ImageDecoder",
        "RegexFullMatch",
        "StringConcat",
        "StringNormalizer",
        "StringSplit",
        "TfIdfVectorizer",
    ),
    "the shape of its result depends on data": ("NonMaxSuppression", "NonZero", "Unique"),
}

_REASON_OF = {operator: reason for reason, names in _REASONS.items() for operator in names}


def refuse_unsupported(model: Model) -> None:
    """Refuse what no static program of numbers computes; constants must have been folded.

    Raises:
        UnsupportedError: naming all such nodes, also those inside of loops and choices.
    """
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            raise UnsupportedError(f"not supported: '{value.name}' holds strings: expected numbers")
    found = list(_problems(model.graph))
    if found:
        raise UnsupportedError(f"not supported: {', '.join(found)}")


def _problems(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        name = node.name or next(filter(None, node.output), "")
        if node.domain not in ONNX_DOMAINS:
            yield f"'{name}' ({node.domain}.{node.op_type}: not an operator of ONNX)"
        elif node.op_type in _REASON_OF:
            yield f"'{name}' ({node.op_type}: {_REASON_OF[node.op_type]})"
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _problems(subgraph)

"""Operators that can never be compiled, found before anything is made of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.contrib.table import has_rule
from rammer_mlir.frontends.onnx.inline import is_inlined_preview
from rammer_mlir.frontends.onnx.lasting import lasting_nodes
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.ngrams import counts_integers
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, label, value_infos

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

_OTHER_TYPES = ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128")

_REAL_TYPES = frozenset(
    number for name, number in onnx.TensorProto.DataType.items() if name not in _OTHER_TYPES
)

_FOLDED = ("sequences are not tensors", "optional values are not tensors")
"""Reasons that do not hold where folding takes apart what it sees put together."""

_ADVICE = {
    "results are random": "make them an input of the model",
    "the shape of its result depends on data": "cut the model in front of it",
}
"""What to do, by reason."""

_OPTIMIZED = ("com.microsoft", "com.ms.")
"""What domains begin with whose operators ONNX Runtime's optimizer writes."""

_REASON_OF = {operator: reason for reason, names in _REASONS.items() for operator in names}


def reason_of(operator: str) -> str | None:
    """Return why an operator of ONNX is refused, None if it is not."""
    return _REASON_OF.get(operator)


def refuse_unsupported(model: Model) -> None:
    """Refuse what no static program of numbers computes; constants must have been folded.

    Raises:
        UnsupportedError: naming all such nodes, also those inside of loops and choices.
    """
    found = [*_problems(model.graph), *_type_problems(model.graph)]
    # What an input holds, the nodes behind it hold too: that is no news.
    found = list(_interface_problems(model)) or found
    if found:
        raise UnsupportedError(f"not supported: {', '.join(found)}")


def refuse_for_all_sizes(model: Model) -> None:
    """Refuse a model with open dimensions for what no sizes of them make constant.

    Nodes inside of loops and choices are left to the specialisation: sizes may decide that they
    never run. Local functions must have been inlined.

    Raises:
        UnsupportedError: naming all such nodes.
    """
    found = [*_interface_problems(model)]
    for node in lasting_nodes(model):
        if _REASON_OF.get(node.op_type) not in _FOLDED:
            found.extend(_problems_of(node))
    if found:
        raise UnsupportedError(f"not supported: {', '.join(found)}")


def _interface_problems(model: Model) -> Iterator[str]:
    for value in model.inputs:
        kind = value.type.tensor_type.elem_type
        if kind == onnx.TensorProto.STRING:
            yield f"'{value.name}' holds strings: expected numbers"
        elif kind not in _REAL_TYPES:
            yield f"'{value.name}' holds {_type_name(kind)}: expected a real number"


def _type_problems(graph: onnx.GraphProto) -> Iterator[str]:
    values = value_infos(graph)
    for node in graph.node:
        for name in node.output:
            kind = values[name].type.tensor_type.elem_type if name in values else 0
            if kind not in (0, *_REAL_TYPES):
                yield (
                    f"{label(node)[:-1]}: its result '{name}' is {_type_name(kind)}, expected a "
                    "real number)"
                )


def _type_name(kind: int) -> str:
    return onnx.TensorProto.DataType.Name(kind).lower()


def _problems(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from _problems_of(node)
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _problems(subgraph)


def _problems_of(node: onnx.NodeProto) -> Iterator[str]:
    name = node.name or next(filter(None, node.output), "")
    counts = node.op_type == "TfIdfVectorizer" and counts_integers(node)
    if has_rule(node) or is_inlined_preview(node) or counts:
        return  # it is written out where its shapes are known, or refused then
    if node.domain not in ONNX_DOMAINS:
        advice = "export the model without it, or bring a function for it"
        if node.domain.startswith(_OPTIMIZED):
            advice = "give the original model, from before its optimization"
        yield f"'{name}' ({node.domain}.{node.op_type}: not an operator of ONNX; {advice})"
    elif node.op_type in _REASON_OF:
        reason = _REASON_OF[node.op_type]
        advice = f"; {_ADVICE[reason]}" if reason in _ADVICE else ""
        yield f"'{name}' ({node.op_type}: {reason}{advice})"

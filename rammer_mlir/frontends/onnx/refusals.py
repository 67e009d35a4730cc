"""Raises errors for operators that can never be compiled, such as random numbers and strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.contrib.table import has_rule
from rammer_mlir.frontends.onnx.hosting.operators import is_host_operator
from rammer_mlir.frontends.onnx.inline import is_inlined_preview
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.ngrams import counts_integers
from rammer_mlir.frontends.onnx.refusal_text import Refusal, refusals_text
from rammer_mlir.frontends.onnx.shape_independent_nodes import lasting_nodes
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
    "encoded images are not numbers": ("ImageDecoder",),
    "strings are not numbers": (
        "RegexFullMatch",
        "StringConcat",
        "StringNormalizer",
        "StringSplit",
        "TfIdfVectorizer",
    ),
}

_OTHER_TYPES = ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128")

_REAL_TYPES = frozenset(
    number for name, number in onnx.TensorProto.DataType.items() if name not in _OTHER_TYPES
)

_ADVICE = {
    "results are random": "make the noise an input of the model",
    "strings are not numbers": "process text in front of the model, and give it numbers",
    "encoded images are not numbers": "decode images in front of the model",
}
"""Remedies, by reason."""

_CLASSICAL = "ai.onnx.ml"
"""The ONNX domain of classical machine learning."""

_CLASSICAL_ADVICE: Mapping[str, tuple[str, ...]] = {
    "write it as MatMul and the kernel's function": ("SVMClassifier",),
    "export the model without it (zipmap=False)": ("ZipMap",),
    "map keys to numbers outside of the model": (
        "CastMap",
        "CategoryMapper",
        "DictVectorizer",
        "LabelEncoder",
    ),
}
"""Refused operators of the domain of classical machine learning, by the remedy."""

_ADVICE_OF_CLASSICAL = {name: words for words, names in _CLASSICAL_ADVICE.items() for name in names}

_OPTIMIZED = ("com.microsoft", "com.ms.")
"""Prefixes of the domains of operators that ONNX Runtime's optimizer creates."""

_REASON_OF = {operator: reason for reason, names in _REASONS.items() for operator in names}


def reason_of(operator: str) -> str | None:
    """Return the reason why an ONNX operator can never be compiled; None if it may be compiled."""
    return _REASON_OF.get(operator)


def refuse_unsupported(model: Model) -> None:
    """Raise an error if nodes have operators or element types that can never be compiled.

    The model's constants must be folded, because folding removes nodes that are never executed.

    Raises:
        UnsupportedError: with all such nodes, including those in loops and conditionals.
    """
    found = [*_problems(model.graph), *_type_problems(model.graph)]
    # The type of an unsupported input recurs in all its consumers, so report only the input.
    found = list(_interface_problems(model)) or found
    if found:
        raise UnsupportedError(refusals_text(found))


def refuse_hosted(model: Model) -> None:
    """Raise an error if a model for a single program has operators that only the host executes.

    Raises:
        UnsupportedError: with the first three such nodes, and the count of the omitted nodes.
    """
    nodes = [label(node) for node in model.graph.node if is_host_operator(node)]
    if nodes:
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        raise UnsupportedError(
            f"{', '.join(nodes[:3])}{more}: expected operators of one static program, found some "
            "that the host runs, because data decides how often, or about the size of a result; "
            "compile the model with rammer-compile or rammer_mlir.compile"
        )


def refuse_for_all_sizes(model: Model) -> None:
    """Raise an error if a model cannot be compiled, whatever the sizes of its open dimensions are.

    Only nodes outside of loops and conditionals are checked. Nodes inside are checked when sizes
    are known, because they may never be executed for these sizes. Local functions must have been
    inlined.

    Raises:
        UnsupportedError: with all nodes that cannot be compiled.
    """
    found = list(_interface_problems(model))
    for node in lasting_nodes(model):
        found.extend(_problems_of(node))
    if found:
        raise UnsupportedError(refusals_text(found))


def _interface_problems(model: Model) -> Iterator[Refusal]:
    for value in model.inputs:
        if not value.type.HasField("tensor_type"):
            continue
        kind = value.type.tensor_type.elem_type
        if kind == onnx.TensorProto.STRING:
            advice = _ADVICE["strings are not numbers"]
            yield Refusal(value.name, "", "holds strings: expected numbers", advice)
        elif kind not in _REAL_TYPES:
            yield Refusal(value.name, "", f"holds {_type_name(kind)}: expected a real number")


def _type_problems(graph: onnx.GraphProto) -> Iterator[Refusal]:
    values = value_infos(graph)
    for node in graph.node:
        for name in node.output:
            kind = values[name].type.tensor_type.elem_type if name in values else 0
            if kind not in (0, *_REAL_TYPES):
                reason = f"is {_type_name(kind)}, expected a real number"
                yield Refusal(_name_of(node), node.op_type, reason, detail=f"its result '{name}' ")


def _type_name(kind: int) -> str:
    return onnx.TensorProto.DataType.Name(kind).lower()


def _problems(graph: onnx.GraphProto) -> Iterator[Refusal]:
    for node in graph.node:
        yield from _problems_of(node)
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _problems(subgraph)


def _problems_of(node: onnx.NodeProto) -> Iterator[Refusal]:
    counts = node.op_type == "TfIdfVectorizer" and counts_integers(node)
    if has_rule(node) or is_inlined_preview(node) or counts:
        return  # rewritten, or refused, once shapes are known
    if node.domain not in ONNX_DOMAINS:
        yield _foreign(node)
    elif node.op_type in _REASON_OF:
        reason = _REASON_OF[node.op_type]
        yield Refusal(_name_of(node), node.op_type, reason, _ADVICE[reason])


def _foreign(node: onnx.NodeProto) -> Refusal:
    """Return why a node with an operator outside of ONNX's domain cannot be compiled."""
    operator, reason = f"{node.domain}.{node.op_type}", "not an operator of ONNX"
    advice = "export the model without it, or bring a function for it"
    if node.domain.startswith(_OPTIMIZED):
        advice = "give the original model, from before its optimization"
    elif node.domain == _CLASSICAL:
        reason = "not an operator on tensors alone"
        advice = _ADVICE_OF_CLASSICAL.get(node.op_type, advice)
    return Refusal(_name_of(node), operator, reason, advice)


def _name_of(node: onnx.NodeProto) -> str:
    return node.name or next(filter(None, node.output), "")

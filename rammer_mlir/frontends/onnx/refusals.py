"""Operators that can never be compiled, found before anything is made of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.contrib.table import has_rule
from rammer_mlir.frontends.onnx.hosting.operators import is_host_operator
from rammer_mlir.frontends.onnx.lasting import lasting_nodes
from rammer_mlir.frontends.onnx.model import Model
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
    "strings and encoded images are not numbers": (
        "ImageDecoder",
        "RegexFullMatch",
        "StringConcat",
        "StringNormalizer",
        "StringSplit",
        "TfIdfVectorizer",
    ),
}

_REAL_TYPES = frozenset(
    onnx.TensorProto.DataType.Value(name)
    for name in "FLOAT FLOAT16 BFLOAT16 DOUBLE BOOL INT8 INT16 INT32 INT64 "
    "UINT8 UINT16 UINT32 UINT64".split()
)

_ADVICE = {
    "results are random": "make them an input of the model",
}
"""What to do, by reason."""

_OPTIMIZED = ("com.microsoft", "com.ms.")
"""What domains begin with whose operators ONNX Runtime's optimizer writes."""

_REASON_OF = {operator: reason for reason, names in _REASONS.items() for operator in names}


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


def refuse_hosted(model: Model) -> None:
    """Refuse what no single program computes, where there shall be one.

    Raises:
        UnsupportedError: naming the first such nodes.
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
    """Refuse a model with open dimensions for what no sizes of them make constant.

    Nodes inside of loops and choices are left to the specialisation: sizes may decide that they
    never run. Local functions must have been inlined.

    Raises:
        UnsupportedError: naming all such nodes.
    """
    found = [*_interface_problems(model)]
    for node in lasting_nodes(model):
        found.extend(_problems_of(node))
    if found:
        raise UnsupportedError(f"not supported: {', '.join(found)}")


def _interface_problems(model: Model) -> Iterator[str]:
    for value in model.inputs:
        if not value.type.HasField("tensor_type"):
            continue
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
    if has_rule(node):
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

"""Copies the nodes of a function or subgraph into another graph, under new names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.tensors import label


def copy_function(
    function: onnx.FunctionProto,
    call: onnx.NodeProto,
    attributes: Mapping[str, onnx.AttributeProto],
    prefix: str,
) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that replace the call of a function.

    Args:
        function: the called function.
        call: the node that calls the function.
        attributes: default values of the function's attributes, for attributes that ``call`` omits.
        prefix: prefix of new names.

    Raises:
        ModelError: if the call has more inputs or results than the function.
    """
    for kind, inner, outer in (
        ("inputs", function.input, call.input),
        ("results", function.output, call.output),
    ):
        if len(outer) > len(inner):
            raise ModelError(
                f"{label(call)}: expected at most {len(inner)} {kind} of function "
                f"'{function.name}', found {len(outer)}"
            )
    names = _pair(function.input, call.input)
    results = _pair(function.output, call.output)
    computed = {inner: outer for inner, outer in results.items() if inner not in names}
    passed = {outer: names[inner] for inner, outer in results.items() if outer and inner in names}
    names.update((inner, outer or prefix + inner) for inner, outer in computed.items())
    given = {attribute.name: attribute for attribute in call.attribute}
    copier = NodeCopier(prefix, {**attributes, **given})
    yield from copier.nodes(function.node, names)
    for number, (result, source) in enumerate(passed.items()):
        yield helper.make_node("Identity", [source], [result], f"{prefix}Identity:{number}")


def _pair(inner: Sequence[str], outer: Sequence[str]) -> dict[str, str]:
    given = [*outer, *[""] * (len(inner) - len(outer))]
    return dict(zip(inner, given, strict=True))


class NodeCopier:
    """Copies nodes; all new names begin with a prefix.

    Args:
        prefix: prefix of new names.
        attributes: values of the enclosing function's attributes, by name. They replace references
            (``ref_attr_name``) in the copied nodes.
    """

    def __init__(self, prefix: str, attributes: Mapping[str, onnx.AttributeProto]) -> None:
        """Store the prefix and the attribute values; the class docstring describes them."""
        self._prefix = prefix
        self._attributes = attributes
        self._count = 0

    def nodes(
        self, nodes: Sequence[onnx.NodeProto], names: dict[str, str]
    ) -> Iterator[onnx.NodeProto]:
        """Yield copies of ``nodes``.

        ``names`` maps the old names of values to new names; a value without a new name keeps its
        old name. The names of the copies' results are added to ``names``.
        """
        for node in nodes:
            copy = onnx.NodeProto(op_type=node.op_type, domain=node.domain, overload=node.overload)
            self._count += 1
            copy.name = f"{self._prefix}{node.op_type}_{self._count}"
            copy.input.extend(names.get(name, name) for name in node.input)
            copy.output.extend(
                names.setdefault(name, self._prefix + name) if name else "" for name in node.output
            )
            copy.attribute.extend(self._attribute(a, names) for a in self._given(node))
            # A constant made of an omitted attribute is itself omitted.
            if copy.op_type == "Constant" and not copy.attribute:
                names[node.output[0]] = ""
                continue
            yield copy

    def _given(self, node: onnx.NodeProto) -> Iterator[onnx.AttributeProto]:
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                yield attribute
            elif attribute.ref_attr_name in self._attributes:
                value = onnx.AttributeProto()
                value.CopyFrom(self._attributes[attribute.ref_attr_name])
                value.name = attribute.name
                yield value

    def _attribute(
        self, attribute: onnx.AttributeProto, names: dict[str, str]
    ) -> onnx.AttributeProto:
        if attribute.type != onnx.AttributeProto.GRAPH:
            return attribute
        copy = onnx.AttributeProto()
        copy.CopyFrom(attribute)
        inside = dict(names)
        for item in (*copy.g.input, *copy.g.initializer):
            inside[item.name] = item.name = self._prefix + item.name
        nodes = list(self.nodes(attribute.g.node, inside))
        del copy.g.node[:]
        copy.g.node.extend(nodes)
        for value in (*copy.g.output, *copy.g.value_info):
            value.name = inside.get(value.name, value.name)
        return copy

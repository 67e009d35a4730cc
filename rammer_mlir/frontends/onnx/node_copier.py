"""Copying the nodes of a function or subgraph into the graph that uses it, under new names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx


class NodeCopier:
    """Copies nodes; all new names begin with a prefix.

    Args:
        prefix: what new names begin with.
        attributes: what the attributes of a function's nodes refer to, by name.
    """

    def __init__(self, prefix: str, attributes: Mapping[str, onnx.AttributeProto]) -> None:
        """Copy nothing yet."""
        self._prefix = prefix
        self._attributes = attributes
        self._count = 0

    def nodes(
        self, nodes: Sequence[onnx.NodeProto], names: dict[str, str]
    ) -> Iterator[onnx.NodeProto]:
        """Yield copies; ``names`` gives values their new names and learns those of the results."""
        for node in nodes:
            copy = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
            self._count += 1
            copy.name = f"{self._prefix}{node.op_type}_{self._count}"
            copy.input.extend(names.get(name, name) for name in node.input)
            copy.output.extend(
                names.setdefault(name, self._prefix + name) if name else "" for name in node.output
            )
            copy.attribute.extend(self._attribute(a, names) for a in self._given(node))
            # A constant made of an attribute that was left out is itself left out.
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

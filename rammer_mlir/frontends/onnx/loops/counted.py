"""Rewrites Loops of known trip count as Scans, if each iteration reads one slice of a tensor.

Iteration ``i`` reads slice ``i`` along an axis. The modules of this folder call such a slice an
element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.folding.types import TensorKind, Types
from rammer_mlir.frontends.onnx.loops.bodies import Body, Surroundings, body_of, copied, step_types
from rammer_mlir.frontends.onnx.loops.element_reads import ElementRead, find_element_reads
from rammer_mlir.frontends.onnx.loops.scans import drop_dead, set_sources
from rammer_mlir.frontends.onnx.model import set_graph_nodes, used_names
from rammer_mlir.frontends.onnx.node_names import Prefixes
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.programs.host_program import Source

_MOST_NUMBERS = 1 << 20
"""Largest trip count for which all iteration numbers are stored in a constant, of 8 MiB then."""


def write_scan(
    node: onnx.NodeProto, steps: int, around: Surroundings, write: NodeWriter
) -> dict[str, TensorKind]:
    """Emit a Scan that replaces a Loop, if iteration ``i`` reads slice ``i`` of a tensor.

    Args:
        node: a Loop whose condition is always true; not modified.
        steps: the Loop's trip count.
        around: constants and types of the values outside of the Loop.
        write: receives the Scan and further new nodes.

    Returns:
        The types of the Scan's results, by name; empty if no Scan is emitted.
    """
    body = Body(body_of(node), around)
    number = body.graph.input[0]
    is_scalar = not number.type.tensor_type.shape.dim
    is_static = all(
        name in around.types and around.types[name].is_static for name in node.input[2:]
    )
    reads = find_element_reads(body, number.name, steps) if is_scalar and is_static else []
    known = {read.node.output[0]: _kind_of(read, around.types) for read in reads}
    types = step_types(body, node.input[2:], around, known) if reads else None
    if types is None:
        return {}
    results = _results(node, body.graph, types, steps)
    scan = _scan_of(node, results)
    graph = body_of(scan)
    sources = _take_elements(graph, reads, around.types, f"{node.name}/element")
    # A Scan's body has neither iteration number nor condition; its types are inferred again.
    del graph.input[:2], graph.output[:1], graph.value_info[:]
    drop_dead(graph)
    # Checked after dead nodes are dropped: reads may have been the only uses.
    names = {value.name for value in body.graph.input[:2]} & used_names(graph)
    if number.name in names and steps > _MOST_NUMBERS:
        return {}
    sources |= _replace_counter(graph, body.graph, names, steps, write)
    for value, state in zip(graph.input, node.input[2:], strict=True):
        value.CopyFrom(_declared(value.name, around.types[state]))
    for value in graph.output:  # inference ignores constants around a body
        if value.name in types and types[value.name].is_static:
            value.CopyFrom(_declared(value.name, types[value.name]))
    shortened = {_shortened(s, around.types, steps, write): e for s, e in sources.items()}
    set_sources(scan, len(node.input) - 2, shortened)
    write.nodes.append(scan)
    return results


def _scan_of(node: onnx.NodeProto, results: Iterable[str]) -> onnx.NodeProto:
    """Return an unfinished Scan with the states and body of a Loop, and results named ``results``.

    The caller has to add the sources (the tensors that the Scan slices), and to adapt the inputs
    and outputs of the body, which are still those of a Loop's body.
    """
    scan = copied(node)
    scan.op_type = "Scan"
    del scan.input[:], scan.output[:]
    scan.input.extend(node.input[2:])
    scan.output.extend(results)
    return scan


def _results(
    node: onnx.NodeProto, body: onnx.GraphProto, types: Types, steps: int
) -> dict[str, TensorKind]:
    """Return the types of a Loop's results, by name; an unnamed, unused result gets a new name.

    ``types`` has the types of the values in the body. A result that stacks one slice per iteration
    has an additional first dimension of size ``steps``.
    """
    found: dict[str, TensorKind] = {}
    states = len(node.input) - 2
    given = [*node.output, *[""] * len(body.output)]
    for number, value in enumerate(body.output[1:]):
        kind = types.get(value.name, TensorKind(0, None))
        if number >= states and kind.shape is not None:
            kind = TensorKind(kind.elem_type, (steps, *kind.shape))
        found[given[number] or f"{node.name}/unused{number}"] = kind
    return found


def _kind_of(read: ElementRead, types: Types) -> TensorKind:
    """Return the type of the result of ``read``, a node that reads one slice of a tensor.

    ``types`` has the types of tensors by name.
    """
    kind = types[read.value]
    assert kind.shape is not None, "reads of unknown shapes are not found"
    kept = (1,) if read.keeps_axis else ()
    shape = (*kind.shape[: read.axis], *kept, *kind.shape[read.axis + 1 :])
    return TensorKind(kind.elem_type, shape)


def _take_elements(
    graph: onnx.GraphProto, reads: Iterable[ElementRead], types: Types, prefix: str
) -> dict[Source, onnx.ValueInfoProto]:
    """Replace the results of ``reads`` by new inputs of a Scan's body, ``graph``, in place.

    Each of ``reads`` is a node that reads one slice (element) of a tensor per iteration. The Scan
    will read the slice instead, and pass it to the body. The names of new inputs begin with
    ``prefix``.

    Returns:
        The tensors that the Scan has to read, each with the declaration of its slice in the body.
    """
    sources: dict[Source, onnx.ValueInfoProto] = {}
    replaced: dict[str, onnx.NodeProto] = {}
    prefixes = Prefixes(graph)
    for read in reads:
        source = Source(read.value, read.axis)
        kind = _kind_of(replace(read, keeps_axis=False), types)
        element = sources.setdefault(source, _declared(f"{prefix}{len(sources)}", kind))
        result = read.node.output[0]
        if read.keeps_axis:
            name = f"{prefixes.unused(result)}/axes"
            axes = numpy_helper.from_array(np.array([read.axis]), name)
            graph.initializer.append(axes)
            new = helper.make_node("Unsqueeze", [element.name, axes.name], [result], read.node.name)
        else:
            new = helper.make_node("Identity", [element.name], [result], read.node.name)
        replaced[result] = new
    set_graph_nodes(graph, [replaced.get(node.output[0], node) for node in graph.node])
    return sources


def _replace_counter(
    graph: onnx.GraphProto, loop: onnx.GraphProto, used: set[str], steps: int, write: NodeWriter
) -> Mapping[Source, onnx.ValueInfoProto]:
    """Replace the iteration number and the condition, which a Scan does not pass to its body.

    The condition becomes a constant in the body. The Scan reads the iteration number from a
    constant tensor [0, 1, 2, ...].

    Args:
        graph: the body of the Scan, modified in place.
        loop: the Loop's body, whose first inputs are the iteration number and the condition.
        used: names of values that the Scan's body uses. The iteration number and the condition are
            replaced only if their names are among them.
        steps: trip count.
        write: receives the constant tensor.

    Returns:
        The constant tensor, with the declaration of its slice in the body; empty if the body does
        not use the iteration number.
    """
    number, condition = loop.input[:2]
    if condition.name in used:
        shape = [1] * len(condition.type.tensor_type.shape.dim)
        graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.bool_), condition.name))
    if number.name not in used:
        return {}
    numbers = write.constant(np.arange(steps, dtype=np.int64))
    kind = TensorKind(onnx.TensorProto.INT64, ())
    return {Source(numbers, 0): _declared(number.name, kind)}


def _shortened(source: Source, types: Types, steps: int, write: NodeWriter) -> Source:
    """Return ``source`` with only the first ``steps`` slices of its tensor.

    A Scan reads one slice of a source per iteration. A Slice node is emitted if the tensor has more
    than ``steps`` slices. A tensor with ``steps`` slices, or without a static shape, is not
    changed.
    """
    kind = types.get(source.value)
    if kind is None or kind.shape is None or kind.shape[source.axis] == steps:
        return source
    return Source(write.part(source.value, 0, steps, source.axis), source.axis)


def _declared(name: str, kind: TensorKind) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind.elem_type, kind.shape)

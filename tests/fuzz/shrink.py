"""Reduction of a case to a smaller case with the same problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import onnx
from google.protobuf.message import DecodeError
from onnx import helper

from tests.fuzz.arrays import feeds_of
from tests.fuzz.case import Case
from tests.fuzz.oracle import Rejected, all_values

Fails = Callable[[Case], bool]
"""A function that returns whether a smaller case still has the problem of the finding."""

SECONDS = 90.0
"""Seconds after which the reduction of a finding ends."""


def shrink(case: Case, fails: Fails) -> Case:
    """Return the smallest case that could be found for which ``fails`` is still true.

    Parts are left out one by one until none can be left out, or the time is over.
    """
    end = time.monotonic() + SECONDS
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _candidates(case):
            if time.monotonic() > end:
                return case
            if fails(candidate):
                case, is_smaller = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    yield from _simpler_options(case)
    if case.kind == "artifact":
        return
    smaller = _smaller_files if case.kind == "file" else _smaller_models
    for content in smaller(case):
        if content != case.model:
            yield Case(case.kind, case.seed, content, case.options)


def _simpler_options(case: Case) -> Iterator[Case]:
    for name in ("edits", "rewrites"):
        steps = case.options.get(name)
        if isinstance(steps, list):
            for number in range(len(steps) if len(steps) > 1 else 0):
                rest = [*steps[:number], *steps[number + 1 :]]
                yield Case(case.kind, case.seed, case.model, {**case.options, name: rest})
    for name, plain in (("winograd", None), ("num_veus", 1), ("policy", "sequential")):
        if case.options.get(name) not in (None, plain):
            options = {key: value for key, value in case.options.items() if key != name}
            simple = options if plain is None else {**options, name: plain}
            yield Case(case.kind, case.seed, case.model, simple)


def _smaller_models(case: Case) -> Iterator[bytes]:
    """Yield smaller parts of a valid model, in serialized form.

    A part computes a single value only, takes a value as an input instead of computing it, or lacks
    a node.
    """
    model = onnx.ModelProto.FromString(case.model)
    try:
        values = all_values(model, feeds_of(model, case.seed))
    except Rejected:
        return
    infos = {
        name: helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in values.items()
    }
    made = [name for node in model.graph.node for name in node.output if name]
    outputs = [value.name for value in model.graph.output]
    for name in made if len(made) > 1 else []:
        if outputs != [name]:
            yield _part(model, infos, [name], set())
    for name in reversed(made):
        if name not in outputs:
            yield _part(model, infos, outputs, {name})
    given = {tensor.name for tensor in model.graph.initializer}
    for name in given:
        yield _part(model, infos, outputs, {name})
    yield _part(model, infos, outputs, set())
    yield from _bypassed(model, infos, outputs)


def _part(model: onnx.ModelProto, infos: dict[str, onnx.ValueInfoProto], outputs: list[str],
          cut: set[str]) -> bytes:  # fmt: skip
    """Return the serialized part of a model that computes ``outputs``.

    Values in ``cut`` become inputs. ``infos`` has the type and shape of each value.
    """
    wanted, nodes = set(outputs), list[onnx.NodeProto]()
    for node in reversed(model.graph.node):
        if wanted & (set(node.output) - cut):
            nodes.insert(0, node)
            wanted.update(node.input)
    made = {name for node in nodes for name in node.output} - cut
    weights = [t for t in model.graph.initializer if t.name in wanted - cut]
    free = [n for n in sorted(wanted - made - {t.name for t in weights}) if n]
    graph = helper.make_graph(
        nodes, "fuzz", [infos[name] for name in free], [infos[name] for name in outputs], weights
    )
    # A node that has a cut result among others must not define it again.
    for node in graph.node:
        for number, name in enumerate(node.output):
            if name in cut:
                node.output[number] = f"{name}_unused"
    smaller = helper.make_model(graph, opset_imports=model.opset_import, ir_version=9)
    return smaller.SerializeToString()


def _bypassed(
    model: onnx.ModelProto, infos: dict[str, onnx.ValueInfoProto], outputs: list[str]
) -> Iterator[bytes]:
    """Yield serialized models without one node each; the node's readers read its operand instead.

    Only nodes with a result of the operand's type and shape can be left out.
    """
    for number, node in enumerate(model.graph.node):
        source = next((n for n in node.input if n and _same(infos[n], infos[node.output[0]])), None)
        if source is None or node.output[0] in outputs or len(node.output) > 1:
            continue
        copy = onnx.ModelProto.FromString(model.SerializeToString())
        for other in copy.graph.node:
            for place, name in enumerate(other.input):
                if name == node.output[0]:
                    other.input[place] = source
        del copy.graph.node[number]
        yield _part(copy, infos, outputs, set())


def _same(left: onnx.ValueInfoProto, right: onnx.ValueInfoProto) -> bool:
    return left.type == right.type


def _smaller_files(case: Case) -> Iterator[bytes]:
    """Yield serialized copies of a damaged model, each without one of its fields or entries."""
    try:
        model = onnx.ModelProto.FromString(case.model)
    except DecodeError:
        return
    for path in list(_places(model)):
        copy = onnx.ModelProto.FromString(case.model)
        found = copy
        for name, number in path[:-1]:
            found = getattr(found, name)
            found = found if number is None else found[number]
        name, number = path[-1]
        if number is None:
            found.ClearField(name)
        else:
            del getattr(found, name)[number]
        yield copy.SerializeToString()


_Path = tuple[tuple[str, int | None], ...]


def _places(message: object, prefix: _Path = ()) -> Iterator[_Path]:
    """Yield the path to every field and every list entry of a protobuf message, outer ones first.

    A path is a sequence of pairs: the name of a field, and the index of an entry of the field. The
    index is None if the pair stands for the whole field.
    """
    for field, value in message.ListFields():  # type: ignore[attr-defined]
        here = (*prefix, (field.name, None))
        yield here
        if field.message_type is None:
            continue
        if hasattr(value, "ListFields"):
            yield from _places(value, here)
        else:
            for number, entry in enumerate(value):
                yield (*prefix, (field.name, number))
                yield from _places(entry, (*prefix, (field.name, number)))

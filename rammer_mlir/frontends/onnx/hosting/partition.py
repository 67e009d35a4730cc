"""Partitions a model into a program of the host and the compiled parts that it calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.folding.attributes import attributes_of
from rammer_mlir.frontends.onnx.hosting.bounds import SizeBounds
from rammer_mlir.frontends.onnx.hosting.operators import (
    fixed_operands,
    is_host_operator,
    is_long_sort,
)
from rammer_mlir.frontends.onnx.hosting.padding import PaddingResult, padding_of
from rammer_mlir.frontends.onnx.hosting.parts import (
    Part,
    PartMaker,
    give_scalar,
    without_shape,
)
from rammer_mlir.frontends.onnx.hosting.placement import Place, place_nodes
from rammer_mlir.frontends.onnx.hosting.shape_chains import ShapeChains
from rammer_mlir.frontends.onnx.hosting.structural_equality import identity
from rammer_mlir.frontends.onnx.model import Model, names_used_by
from rammer_mlir.frontends.onnx.open_inputs import open_signature
from rammer_mlir.frontends.onnx.shapes import open_nodes, require_static_values
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, value_infos
from rammer_mlir.frontends.onnx.traversal import subgraphs
from rammer_mlir.programs.host_program import (
    Call,
    Choose,
    Compute,
    Evaluate,
    HostProgram,
    Repeat,
    Source,
    Stack,
    Step,
    operands_of,
    results_of,
)

Shape = tuple[int, ...]

_MOST_TRIVIAL = 16
"""Largest number of small nodes that the host evaluates instead of compiling them as a part."""


@dataclass(frozen=True)
class HostedGraph:
    """A model as steps of the host and compiled parts.

    Attributes:
        program: the host's steps; a step may evaluate a node, or call a part by its index in
            ``parts``.
        parts: the parts as models.
    """

    program: HostProgram
    parts: tuple[Part, ...]


def needs_host(model: Model) -> bool:
    """Whether a model with inferred shapes cannot be a single static program."""
    nodes, types = model.graph.node, value_infos(model.graph)
    if any(map(is_host_operator, nodes)) or open_nodes(model.graph):
        return True
    if any(is_long_sort(node, types) for node in nodes):
        return True
    constants = {tensor.name for tensor in model.graph.initializer} | model.weights.keys()
    return any(name not in constants for node in nodes for name in fixed_operands(node))


def partition(model: Model, *, is_repeated: bool = False) -> HostedGraph:
    """Partition a model into steps of the host and parts.

    The model's shapes must be inferred, and its constants folded.

    Args:
        model: not modified.
        is_repeated: whether the model runs in a loop, so that its inputs differ between runs.

    Raises:
        ShapeError: if a shape is unknown although it does not depend on data.
    """
    hosted = _Partition(model, is_repeated=is_repeated).run()
    _require_progress(model, hosted)
    return hosted


def _require_progress(model: Model, hosted: HostedGraph) -> None:
    """Raise ShapeError if a shape is unknown and partitioning has not made the model simpler.

    The model is not simpler if the only step calls a part with all nodes of the model, the part has
    no shape values, and its inputs are not padded. Partitioning this part would give the same part
    again.
    """
    steps, parts = hosted.program.steps, hosted.parts
    computes = [step for step in steps if isinstance(step, Compute) and step.padding is None]
    is_whole = len(computes) == len(steps) == 1 and not parts[0].shape_values
    if is_whole and len(parts[0].model.graph.node) == len(model.graph.node):
        require_static_values(model.graph)


@dataclass
class _Partition:
    model: Model
    is_repeated: bool
    steps: list[Step] = field(default_factory=list[Step])
    parts: list[Part] = field(default_factory=list[Part])

    def __post_init__(self) -> None:
        self._maker = PartMaker(self.model)
        self._numbers: dict[bytes, int] = {}
        self._bounds = SizeBounds(self.model)

    def run(self) -> HostedGraph:
        graph = self.model.graph
        placement = place_nodes(self.model, is_repeated=self.is_repeated)
        nodes = list(zip(graph.node, placement.places, placement.is_trivial, strict=True))
        self._chains = ShapeChains(self.model, [n for n, place, _ in nodes if place.on_host])
        for slot, shape_values in enumerate(placement.shape_values):
            self.steps += [self._step(n) for n, place, _ in nodes if place == Place(slot, True)]
            own = [(n, trivial) for n, place, trivial in nodes if place == Place(slot, False)]
            # Calling a part costs more than a few trivial evaluations.
            if len(own) <= _MOST_TRIVIAL and len(own) < len(nodes) and all(t for _, t in own):
                self.steps += [self._step(node) for node, _ in own]
            else:
                others = [n for n, place, _ in nodes if place != Place(slot, False)]
                self.steps.append(self._compute([n for n, _ in own], shape_values, others))
        self.steps = list(_without_dead(self.steps, {value.name for value in graph.output}))
        program = HostProgram(
            tuple(value.name for value in self.model.inputs),
            tuple(value.name for value in graph.output),
            tuple(self.steps),
            self._constants(),
        )
        return HostedGraph(program, tuple(self.parts))

    def _compute(
        self,
        nodes: Sequence[onnx.NodeProto],
        shape_values: Iterable[str],
        others: Iterable[onnx.NodeProto],
    ) -> Compute:
        """Add a part that consists of ``nodes``, and return the step that calls it.

        Args:
            nodes: nodes of the part.
            shape_values: names of inputs that must be constants in a static program.
            others: nodes outside of the part that may use its results.
        """
        used = names_used_by(others) | {value.name for value in self.model.graph.output}
        outputs = [name for node in nodes for name in node.output if name and name in used]
        given = self._free(nodes)
        # Recomputing shapes in the part can replace inputs, so collect the inputs again.
        nodes = [*self._chains.nodes_for(sorted(given), given), *nodes]
        given = self._free(nodes)
        inputs = sorted(given)
        model = self._maker.of_nodes(nodes, inputs, outputs)
        values = tuple(name for name in shape_values if name in given)
        part = Part(model, values, self.is_repeated, is_eager=True)
        verdict = (
            padding_of(part, self._bounds) if open_signature(model).is_open else PaddingResult(None)
        )
        call = self._call(part, inputs)
        return Compute(call, tuple(outputs), verdict.padding, verdict.obstacle)

    def _free(self, nodes: Sequence[onnx.NodeProto]) -> set[str]:
        """Return the names of values that nodes read but do not compute, except constants."""
        computed = {name for node in nodes for name in node.output}
        return names_used_by(nodes) - computed - self.model.constants().keys() - {""}

    def _call(self, part: Part, operands: Iterable[str]) -> Call:
        self.parts.append(part)
        return Call(len(self.parts) - 1, tuple(operands))

    def _step(self, node: onnx.NodeProto) -> Step:
        if node.domain in ONNX_DOMAINS and node.op_type == "If":
            return self._choose(node)
        if node.domain in ONNX_DOMAINS and node.op_type == "Loop":
            return self._loop(node)
        if node.domain in ONNX_DOMAINS and node.op_type == "Scan":
            return self._scan(node)
        attributes = attributes_of(node)
        return Evaluate(node.name, node.op_type, attributes, tuple(node.input), tuple(node.output))

    def _choose(self, node: onnx.NodeProto) -> Choose:
        branches = {a.name: a.g for a in node.attribute}
        then, otherwise = (
            self._body(branches[f"{kind}_branch"], [], [], is_repeated=self.is_repeated)
            for kind in ("then", "else")
        )
        return Choose(node.name, node.input[0], (then, otherwise), tuple(node.output))

    def _body(
        self,
        body: onnx.GraphProto,
        inputs: Sequence[onnx.ValueInfoProto],
        shapes: Sequence[Shape | None],
        *,
        is_repeated: bool,
    ) -> Call:
        """Add a part for a branch of an If or the body of a loop, and return the call of the part.

        If an equal part exists already, nothing is added, and the existing part is called.

        Args:
            body: the subgraph, not modified.
            inputs: inputs of the body.
            shapes: shapes of the inputs at the first call; None if unknown.
            is_repeated: whether ``body`` is the body of a loop, or within the body of a loop.
        """
        captured = self._maker.captured(body)
        if is_repeated:  # shares parts of bodies that differ only in these
            captured += self._maker.elementwise_weights(body)
        model = self._maker.of_subgraph(body, inputs, captured)
        part = Part(model, (), is_repeated, is_eager=False)
        number = self._numbers.setdefault(identity(part), len(self.parts))
        call = Call(number, tuple(captured))
        if number == len(self.parts):
            self.parts.append(part)
        known = [*shapes, *map(self._maker.shape, captured)]
        found = tuple(shape for shape in known if shape is not None)
        return replace(call, shapes=found) if len(found) == len(known) else call

    def _loop(self, node: onnx.NodeProto) -> Repeat:
        body = _copied(node)
        count, condition, *states = [*node.input, "", ""][: max(2, len(node.input))]
        inputs = [
            give_scalar(body, 0, onnx.TensorProto.INT64),
            give_scalar(body, 1, onnx.TensorProto.BOOL),
        ]
        inputs += self._states(body.input[2:], states)
        shapes = [(), (), *map(self._maker.shape, states)]
        results = [*node.output, *[""] * (len(body.output) - 1 - len(node.output))]
        stacks = tuple(self._stack(name, 0, 0) for name in results[len(states) :])
        return Repeat(
            node.name,
            is_counted=True,
            count=count,
            condition=condition,
            states=tuple(states),
            sources=(),
            body=self._body(body, inputs, shapes, is_repeated=True),
            results=tuple(results[: len(states)]),
            stacks=stacks,
        )

    def _scan(self, node: onnx.NodeProto) -> Repeat:
        body = _copied(node)
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        number = int(given["num_scan_inputs"])
        states, sources = node.input[:-number], node.input[-number:]
        results = [*node.output, *[""] * (len(body.output) - len(node.output))]
        stacked = results[len(states) :]
        inputs = self._states(body.input, node.input)
        taken = _axes(given, "input", sources)
        elements = (self._maker.element_shape(value, axis) for value, axis, _ in taken)
        shapes = [*map(self._maker.shape, states), *elements]
        return Repeat(
            node.name,
            is_counted=False,
            count="",
            condition="",
            states=tuple(states),
            sources=tuple(Source(value, axis, bool(direction)) for value, axis, direction in taken),
            body=self._body(body, inputs, shapes, is_repeated=True),
            results=tuple(results[: len(states)]),
            stacks=tuple(
                self._stack(value, axis, direction)
                for value, axis, direction in _axes(given, "output", stacked)
            ),
        )

    def _stack(self, value: str, axis: int, direction: int) -> Stack:
        return Stack(value, axis, bool(direction), *self._maker.element(value, axis))

    def _states(
        self, inputs: Iterable[onnx.ValueInfoProto], given: Iterable[str]
    ) -> list[onnx.ValueInfoProto]:
        """Return the declarations of a loop body's states, without shapes.

        ``inputs`` are the body's inputs for the states, ``given`` the names of the initial values.
        A state without an element type gets the element type of its initial value.
        """
        found: list[onnx.ValueInfoProto] = []
        for value, source in zip(inputs, given, strict=True):
            copy = without_shape(value)
            if not copy.HasField("type") or (
                copy.type.HasField("tensor_type") and not copy.type.tensor_type.elem_type
            ):
                copy.type.tensor_type.elem_type = self._maker.elem_type(source)
            found.append(copy)
        return found

    def _constants(self) -> dict[str, Array]:
        """Return the constants that steps or outputs use, by name."""
        used = {name for step in self.steps for name in operands_of(step)}
        used |= {value.name for value in self.model.graph.output}
        found = {n: value for n, value in self.model.constants().items() if n in used}
        return {n: np.ascontiguousarray(v).reshape(v.shape) for n, v in found.items()}


def _without_dead(steps: Sequence[Step], used: set[str]) -> Iterator[Step]:
    """Yield the steps in order, without unused evaluations.

    An evaluation is used if a later step reads one of its results, or if one of its results is in
    ``used``, the names of the model's outputs.
    """
    kept: list[Step] = []
    for step in reversed(steps):
        if not isinstance(step, Evaluate) or not used.isdisjoint(results_of(step)):
            kept.append(step)
            used = used | set(operands_of(step))
    yield from reversed(kept)


def _copied(node: onnx.NodeProto) -> onnx.GraphProto:
    """Return a copy of the body of a loop node."""
    (body,) = subgraphs(node)
    return onnx.GraphProto.FromString(body.SerializeToString())


def _axes(given: dict[str, object], kind: str, names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return a triple (name, axis, direction) for each source or stack of a Scan.

    A source is an input of which each iteration reads a slice; a stack is a result to which each
    iteration adds a slice. The direction is 1 if the first iteration's slice is the last of the
    axis, else 0.

    Args:
        given: attributes of the Scan.
        kind: ``input`` for sources, ``output`` for stacks.
        names: names of the sources or stacks.
    """
    zeros = [0] * len(names)
    axes = given.get(f"scan_{kind}_axes", zeros)
    directions = given.get(f"scan_{kind}_directions", zeros)
    return list(zip(names, axes, directions, strict=True))  # type: ignore[arg-type]

"""Rewrites recurrent layers as Scan nodes if they have too many time steps to be unrolled.

The body of the Scan is the same operator for a single time step, which is decomposed like any other
layer. The host runs the body once per time step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.limits import MOST_NODES
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.recurrent import least_nodes
from rammer_mlir.frontends.onnx.tensors import ShapeTable, dtype_of

_MOST_UNROLLED = 64
"""Maximum number of steps of a layer that stays a recurrent operator.

A Scan of so few steps would be unrolled again.
"""

_OF_DIRECTIONS = ("activation_alpha", "activation_beta", "activations", "direction", "layout")
"""Attributes of a layer that the operator of a single step and direction does not inherit."""


def repeat_long_layers(model: Model) -> bool:
    """Rewrite long LSTM, GRU and RNN nodes as Scans, in place, if the model would get too large.

    The model would get too large if unrolling all recurrent layers gave more than MOST_NODES nodes.

    Returns:
        Whether a layer was rewritten.
    """
    table = ShapeTable(model.graph)
    sizes = [least_nodes(node, table) for node in model.graph.node]
    if sum(sizes) <= MOST_NODES:
        return False
    nodes: list[onnx.NodeProto] = []
    for node, size in zip(model.graph.node, sizes, strict=True):
        layer = _Layer.of(node, model, table) if size else None
        nodes.extend([node] if layer is None else layer.scans())
    is_changed = len(nodes) > len(model.graph.node)
    model.set_nodes(nodes)
    return is_changed


@dataclass(frozen=True)
class _Layer:
    """A recurrent layer.

    Attributes:
        node: the LSTM, GRU or RNN node.
        shape: counts of time steps, sequences in a batch, features, and elements of a state.
        kind: ONNX element type.
        attributes: attributes of the node, by name.
        write: collects the nodes of the replacement.
        model: the node's model, whose constant weights are sliced.
    """

    node: onnx.NodeProto
    shape: tuple[int, int, int, int]
    kind: int
    attributes: Mapping[str, object]
    write: NodeWriter
    model: Model

    @staticmethod
    def of(node: onnx.NodeProto, model: Model, table: ShapeTable) -> _Layer | None:
        """Return the layer that ``node`` computes, if it has too many time steps to unroll.

        Return None for other nodes. Also return None if activations have parameters (alpha, beta),
        because their values cannot be assigned to a direction.
        """
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        x, hidden = table.shape(node.input[0]), table.shape(node.input[2])[2]
        steps, batch = x[1::-1] if attributes.get("layout", 0) else x[:2]
        has_parameters = any(name in attributes for name in _OF_DIRECTIONS[:2])
        if steps <= _MOST_UNROLLED or has_parameters:
            return None
        write = NodeWriter(model, node.name)
        kind = table.elem_type(node.input[0])
        return _Layer(node, (steps, batch, x[2], hidden), kind, attributes, write, model)

    def scans(self) -> list[onnx.NodeProto]:
        """Return the Scans of all directions, and the nodes that concatenate their results."""
        kind = self.attributes.get("direction", b"forward")
        sources = [self._sequence(), *self._running()]
        directions = [
            self._direction(number, sources, is_reversed=kind == b"reverse" or number == 1)
            for number in range(2 if kind == b"bidirectional" else 1)
        ]
        for number, name in enumerate(self.node.output):
            if name:
                parts = [found[number] for found in directions]
                self._finish(parts, name, is_sequence=number == 0)
        return self.write.nodes

    def _input(self, number: int) -> str:
        return self.node.input[number] if number < len(self.node.input) else ""

    @property
    def _is_batch_first(self) -> bool:
        return bool(self.attributes.get("layout", 0))

    @property
    def _states(self) -> int:
        return 2 if self.node.op_type == "LSTM" else 1

    def _sequence(self) -> str:
        x = self._input(0)
        return self.write.node("Transpose", [x], perm=[1, 0, 2]) if self._is_batch_first else x

    def _running(self) -> Iterator[str]:
        """Emit a mask of the sequences that have not ended at each time step; yield its name.

        The mask is a boolean [steps, batch, 1]. If the layer has no sequence lengths, nothing is
        emitted or yielded.
        """
        lengths, (steps, batch, *_) = self._input(4), self.shape
        if lengths:
            row = self.write.node("Reshape", [lengths, self.write.integers(1, batch, 1)])
            numbers = self.write.constant(np.arange(steps, dtype=np.int64).reshape(steps, 1, 1))
            yield self.write.node(
                "Greater", [self.write.node("Cast", [row], to=onnx.TensorProto.INT64), numbers]
            )

    def _direction(self, number: int, sources: list[str], *, is_reversed: bool) -> list[str]:
        """Emit the Scan of one direction, which reads ``sources`` backward if ``is_reversed``.

        ``number`` is the index of the direction. ``sources`` are the names of the input and, if the
        layer has sequence lengths, of the mask of sequences that have not ended. Returns the name
        of the outputs of all time steps, then the names of the last states.
        """
        initial = [self._initial(5 + state, number) for state in range(self._states)]
        directions = [int(is_reversed)]
        *states, outputs = self.write.node_with_results(
            "Scan",
            [*initial, *sources],
            self._states + 1,
            body=self._body(number, has_lengths=len(sources) > 1),
            num_scan_inputs=len(sources),
            scan_input_directions=directions * len(sources),
            scan_output_directions=directions,
        )
        return [outputs, *states]

    def _initial(self, position: int, number: int) -> str:
        name, (_, batch, _, hidden) = self._input(position), self.shape
        if not name:
            return self.write.constant(np.zeros((1, batch, hidden), dtype_of(self.kind)))
        if self._is_batch_first:
            name = self.write.node("Transpose", [name], perm=[1, 0, 2])
        return self._part(name, number)

    def _part(self, name: str, number: int) -> str:
        """Return the name of one direction's slice of an operand of the layer.

        ``name`` is the name of the operand, and ``number`` the index of the direction. A constant
        is sliced at compile time; for any other operand a Slice is emitted.
        """
        value = self.model.constants().get(name)
        if value is None:
            return self.write.part(name, number, number + 1)
        return name if len(value) == 1 else self.write.constant(value[number : number + 1])

    def _body(self, number: int, *, has_lengths: bool) -> onnx.GraphProto:
        """Return the body of the Scan of direction ``number``: a single time step.

        Its inputs are the states, the input of the time step and, if ``has_lengths``, the mask of
        sequences that have not ended. Its results are the new states and the output.
        """
        _, batch, features, hidden = self.shape
        prefix = self.write.fresh()
        write = NodeWriter(self.model, prefix)
        before = [f"{prefix}/before{state}" for state in range(self._states)]
        element, running = f"{prefix}/element", f"{prefix}/running"
        states = self._step(number, write, element, before)
        output = states[0]
        if has_lengths:
            zero = write.constant(np.zeros((1, 1, 1), dtype_of(self.kind)))
            output = write.node("Where", [running, output, zero])
            pairs = zip(states, before, strict=True)
            states = [write.node("Where", [running, *pair]) for pair in pairs]
        results = [write.node("Identity", [name]) for name in (*states, output)]
        inputs = [self._info(name, 1, batch, hidden) for name in before]
        inputs.append(self._info(element, batch, features))
        if has_lengths:
            inputs.append(helper.make_tensor_value_info(running, onnx.TensorProto.BOOL, [batch, 1]))
        outputs = [self._info(name, 1, batch, hidden) for name in results]
        return helper.make_graph(write.nodes, f"{prefix}/step", inputs, outputs)

    def _info(self, name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, self.kind, shape)

    def _step(self, number: int, write: NodeWriter, element: str, before: list[str]) -> list[str]:
        """Emit the layer's operator for a single time step; return the names of the new states.

        Args:
            number: index of the direction.
            write: collects the nodes.
            element: name of the input of the time step, [batch, features].
            before: names of the states before the time step.
        """
        weights = [self._part(name, number) if (name := self._input(n)) else "" for n in (1, 2, 3)]
        x = write.node("Unsqueeze", [element, write.integers(0)])
        inputs = [x, *weights, "", *before]
        if self._input(7):
            inputs.append(self._part(self._input(7), number))
        states = [write.fresh() for _ in before]
        kept = {k: v for k, v in self.attributes.items() if k not in _OF_DIRECTIONS}
        write.named(self.node.op_type, inputs, ["", *states], **kept, **self._functions(number))
        return states

    def _functions(self, number: int) -> dict[str, object]:
        """Return the attribute ``activations`` of an operator for one direction, as a dictionary.

        The dictionary maps the attribute's name to the activation functions of direction
        ``number``. The dictionary is empty if the layer omits the attribute.
        """
        given = self.attributes.get("activations")
        if not isinstance(given, list):
            return {}
        each = {"LSTM": 3, "GRU": 2, "RNN": 1}[self.node.op_type]
        return {"activations": given[number * each : (number + 1) * each]}

    def _finish(self, parts: list[str], name: str, *, is_sequence: bool) -> None:
        axis = 1 if is_sequence else 0
        if not self._is_batch_first:
            self.write.named("Concat", parts, [name], axis=axis)
            return
        joined = self.write.node("Concat", parts, axis=axis)
        order = [2, 0, 1, 3] if is_sequence else [1, 0, 2]
        self.write.named("Transpose", [joined], [name], perm=order)

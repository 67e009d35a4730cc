"""Decomposes LSTM, GRU and RNN into a cell per time step, so that schedules can overlap layers.

The input projections of all time steps are one matrix product. The cell of a time step adds the
recurrent part ``h @ R^T``, with one transposed weight for all time steps, and applies the gates.
Gate orders and equations are those of ONNX's operator specifications. If a sequence is shorter than
the input, the time steps after its end keep its states and output zeros.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.activations import Activation, resolve
from rammer_mlir.frontends.onnx.limits import require_few_nodes
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, ShapeTable, dtype_of, label
from rammer_mlir.frontends.onnx.well_formed import naming

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_NODES_OF_STEP = {"LSTM": 15, "GRU": 14, "RNN": 6}
_INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def decompose_recurrent(model: Model) -> None:
    """Expand every LSTM, GRU and RNN to a cell per time step, in place.

    The model's shapes must be inferred.

    Raises:
        ModelError: if constant sequence lengths do not match the input.
        UnsupportedError: if an activation is unknown.
    """
    graph = model.graph
    if not any(node.op_type in _GATES for node in graph.node):
        return
    table = ShapeTable(graph)
    values = model.constants()
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type in _GATES:
            with naming(node):
                layer = _Layer(node, model, table, values)
                # Refuse before writing: a long sequence would take minutes to expand.
                require_few_nodes(label(node), len(nodes) + least_nodes(node, table))
                nodes.extend(layer.decompose())
        else:
            nodes.append(node)
    model.set_nodes(nodes)
    model.drop_unused_constants()


def least_nodes(node: onnx.NodeProto, table: ShapeTable) -> int:
    """Return a lower bound of the number of nodes to which a recurrent layer is unrolled.

    The bound is 0 if ``node`` is another operator, or if a shape is open.
    """
    if node.op_type not in _GATES or node.domain not in ONNX_DOMAINS:
        return 0
    x, weights = (table.find_shape(name) for name in node.input[:2])
    if x is None or weights is None or table.find_shape(node.input[2]) is None:
        return 0
    is_batch_first = any(a.name == "layout" and a.i for a in node.attribute)
    return x[1 if is_batch_first else 0] * weights[0] * _NODES_OF_STEP[node.op_type]


Weight = Array | str
"""A constant, or the name of a computed value."""


@dataclass(frozen=True)
class _Direction:
    """The parameters of one direction of a recurrent layer, as names of values or as constants.

    ``W`` are the weights of the input, and ``R`` the weights of the state, as in ONNX's
    specification.

    Attributes:
        projected: for each time step, the product of its input and W, plus the input bias.
        recurrent: R transposed; without the columns for GRU's candidate (the new hidden state) if
            ``candidate_recurrent`` has them.
        recurrent_bias: bias that each time step adds; None if ``projected`` includes this bias.
        candidate_recurrent: the rows of R for GRU's candidate, transposed; empty if ``recurrent``
            includes them.
        peepholes: LSTM's peephole weights of the gates i, o and f; None without peepholes.
        activations: the activation functions of the gates and states.
    """

    projected: list[str]
    recurrent: str
    recurrent_bias: Weight | None
    candidate_recurrent: str
    peepholes: tuple[str, str, str] | None
    activations: Sequence[Activation]


class _Layer:
    def __init__(
        self,
        node: onnx.NodeProto,
        model: Model,
        table: ShapeTable,
        values: MutableMapping[str, Array],
    ) -> None:
        self._node = node
        self._kind = node.op_type
        self._values = values
        self._table = table
        self._running: list[str] = []
        self._inputs: dict[str, str] = dict(zip(_INPUTS, [*node.input, *[""] * 8], strict=False))
        if self._kind != "LSTM":
            self._inputs["initial_c"] = self._inputs["P"] = ""
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._write = NodeWriter(model, node.name or node.output[0])
        self._batch_first = bool(self._attributes.get("layout", 0))
        shape = table.shape(self._inputs["X"])
        self._steps, self._batch = (shape[1], shape[0]) if self._batch_first else shape[:2]
        self._features = shape[2]
        self._directions = table.shape(self._inputs["W"])[0]
        self._hidden = table.shape(self._inputs["R"])[2]
        self._dtype = dtype_of(table.elem_type(self._inputs["X"]))

    def decompose(self) -> list[onnx.NodeProto]:
        write = self._write
        if not self._steps or not self._batch:
            self._keep_states()
            return write.nodes
        self._running = self._find_running()
        x = self._inputs["X"]
        if self._batch_first:
            x = write.node("Transpose", [x], perm=[1, 0, 2])
        # All steps are projected by a single product, whose rows are (step, batch).
        rows = write.node("Reshape", [x, write.integers(self._steps * self._batch, self._features)])
        outputs: list[list[str]] = []
        last_h: list[str] = []
        last_c: list[str] = []
        for number in range(self._directions):
            steps, h, c = self._run(number, self._direction(number, rows))
            outputs.append(steps)
            last_h.append(h)
            last_c.append(c)
        self._write_outputs(outputs, last_h, last_c)
        return write.nodes

    def _keep_states(self) -> None:
        """Emit the outputs of an empty layer: its last states are its initial states.

        An empty layer has no time steps, or no sequences in its batch.
        """
        shape = [self._directions, self._batch, self._hidden]
        if self._batch_first:
            shape[:2] = shape[1::-1]
        steps = (
            [*shape[:1], self._steps, *shape[1:]] if self._batch_first else [self._steps, *shape]
        )
        keys = ("", "initial_h", "initial_c")
        for name, key in zip(self._node.output, keys, strict=False):
            given = self._inputs[key] if key else ""
            zeros = np.zeros(shape if key else steps, self._dtype)
            if name:
                self._write.named("Identity", [given or self._write.constant(zeros)], [name])

    def _find_running(self) -> list[str]:
        """Return, for each time step, the name of a mask of the sequences that have not ended.

        The mask is a boolean [batch, 1]. The name is "" if it is known at compile time that no
        sequence has ended at the time step.
        """
        name = self._inputs["sequence_lens"]
        if not name:
            return [""] * self._steps
        column = [self._batch, 1]
        if name in self._values:
            lengths = self._checked(self._values[name]).reshape(column)
            masks = [lengths > step for step in range(self._steps)]
            return ["" if mask.all() else self._write.constant(mask) for mask in masks]
        kind = dtype_of(self._table.elem_type(name))
        lengths = self._reshape(name, *column)
        steps = [self._write.constant(np.array(step, kind)) for step in range(self._steps)]
        return [self._write.node("Greater", [lengths, step]) for step in steps]

    def _checked(self, lengths: Array) -> NDArray[np.int64]:
        whole = lengths.astype(np.int64)
        if whole.size and not 0 <= whole.min() <= whole.max() <= self._steps:
            raise ModelError(
                f"{label(self._node)}: expected sequence_lens from 0 to {self._steps}, the "
                f"length of its input, found {whole.tolist()}"
            )
        return whole

    def _weight(self, key: str, direction: int) -> Weight:
        name = self._inputs[key]
        if name in self._values:
            return self._values[name][direction]
        return self._write.element(name, direction)

    def _name(self, weight: Weight) -> str:
        return weight if isinstance(weight, str) else self._write.constant(weight)

    def _rows(self, weight: Weight, start: int, end: int) -> Weight:
        if isinstance(weight, str):
            return self._write.part(weight, start, end)
        return weight[start:end]

    def _transposed(self, weight: Weight) -> str:
        if isinstance(weight, str):
            return self._write.node("Transpose", [weight], perm=[1, 0])
        return self._write.constant(weight.T)

    def _direction(self, number: int, rows: str) -> _Direction:
        """Emit the input projections of all time steps and return the direction's parameters.

        ``number`` is the index of the direction; ``rows`` is the name of the input as a matrix
        [steps * batch, features].
        """
        gates = _GATES[self._kind] * self._hidden
        input_bias, recurrent_bias = self._biases(number, gates)
        write = self._write
        product = write.node("MatMul", [rows, self._transposed(self._weight("W", number))])
        if input_bias is not None:
            product = write.node("Add", [product, self._name(input_bias)])
        stacked = write.node("Reshape", [product, write.integers(self._steps, self._batch, gates)])
        recurrent = self._weight("R", number)
        # Without linear_before_reset, the candidate multiplies R with r * h, not with h.
        candidate = ""
        if self._kind == "GRU" and not self._attributes.get("linear_before_reset", 0):
            candidate = self._transposed(self._rows(recurrent, 2 * self._hidden, gates))
            recurrent = self._rows(recurrent, 0, 2 * self._hidden)
        return _Direction(
            projected=[write.element(stacked, step) for step in range(self._steps)],
            recurrent=self._transposed(recurrent),
            recurrent_bias=recurrent_bias,
            candidate_recurrent=candidate,
            peepholes=self._peepholes(number),
            activations=self._activations(number),
        )

    def _biases(self, number: int, gates: int) -> tuple[Weight | None, Weight | None]:
        """Return the bias of the input projections, and the bias that each time step adds.

        A bias is None if it does not exist or is included in the other bias. ``number`` is the
        index of the direction; ``gates`` is the count of rows of all gates together.
        """
        if not self._inputs["B"]:
            return None, None
        bias = self._weight("B", number)
        of_input, of_recurrence = self._rows(bias, 0, gates), self._rows(bias, gates, 2 * gates)
        # With linear_before_reset, the recurrent bias is inside of the product with r.
        if self._kind == "GRU" and self._attributes.get("linear_before_reset", 0):
            return of_input, of_recurrence
        if isinstance(of_input, str) or isinstance(of_recurrence, str):
            added = self._write.node("Add", [self._name(of_input), self._name(of_recurrence)])
            return added, None
        # The two biases are added once here, instead of in each step.
        return np.add(of_input, of_recurrence), None

    def _peepholes(self, number: int) -> tuple[str, str, str] | None:
        if not self._inputs["P"]:
            return None
        weight, h = self._weight("P", number), self._hidden
        i, o, f = (self._name(self._rows(weight, k * h, (k + 1) * h)) for k in range(3))
        return i, o, f

    def _activations(self, number: int) -> list[Activation]:
        default = _ACTIVATIONS[self._kind] * self._directions
        given = [name.decode() for name in self._attributes.get("activations", [])] or default
        resolved = resolve(
            given,
            self._attributes.get("activation_alpha", []),
            self._attributes.get("activation_beta", []),
            label(self._node),
        )
        each = len(given) // self._directions
        return resolved[number * each : (number + 1) * each]

    def _activate(self, direction: _Direction, index: int, value: str) -> str:
        clip = self._attributes.get("clip")
        if clip:
            low, high = (self._write.constant(np.array(c, self._dtype)) for c in (-clip, clip))
            value = self._write.node("Clip", [value, low, high])
        return self._apply(direction, index, value)

    def _apply(self, direction: _Direction, index: int, value: str) -> str:
        return direction.activations[index].apply(self._write, value, self._dtype)

    def _initial(self, key: str, number: int) -> str:
        name = self._inputs[key]
        if not name:
            return self._zeros()
        return self._write.element(name, number, axis=1 if self._batch_first else 0)

    def _zeros(self) -> str:
        return self._write.constant(np.zeros((self._batch, self._hidden), self._dtype))

    def _run(self, number: int, direction: _Direction) -> tuple[list[str], str, str]:
        """Emit the cells of all time steps of direction ``number``.

        Returns names of values: the output of each time step, the last state h, and the last state
        c, which is "" for layers other than LSTM.
        """
        kind = self._attributes.get("direction", b"forward").decode()
        backward = kind == "reverse" or number == 1
        h = self._initial("initial_h", number)
        c = self._initial("initial_c", number) if self._kind == "LSTM" else ""
        outputs = [""] * self._steps
        for step in reversed(range(self._steps)) if backward else range(self._steps):
            before, running = (h, c), self._running[step]
            if self._kind == "LSTM":
                h, c = self._lstm_cell(direction, direction.projected[step], h, c)
            elif self._kind == "GRU":
                h = self._gru_cell(direction, direction.projected[step], h)
            else:
                total = self._with_recurrence(direction, direction.projected[step], h)
                h = self._activate(direction, 0, total)
            outputs[step] = h
            if running:
                # After the end of a sequence, its output is 0 and its states are kept.
                outputs[step] = self._write.node("Where", [running, h, self._zeros()])
                h = self._write.node("Where", [running, h, before[0]])
                c = self._write.node("Where", [running, c, before[1]]) if c else ""
        return outputs, h, c

    def _with_recurrence(self, direction: _Direction, projected: str, h: str) -> str:
        product = self._write.node("MatMul", [h, direction.recurrent])
        return self._write.node("Add", [projected, product])

    def _split(self, value: str, parts: int) -> list[str]:
        sizes = self._write.integers(*[self._hidden] * parts)
        return self._write.node_with_results("Split", [value, sizes], parts, axis=-1)

    def _lstm_cell(self, direction: _Direction, projected: str, h: str, c: str) -> tuple[str, str]:
        write = self._write
        i, o, f, g = self._split(self._with_recurrence(direction, projected, h), 4)
        if direction.peepholes:
            i = write.node("Add", [i, write.node("Mul", [direction.peepholes[0], c])])
            f = write.node("Add", [f, write.node("Mul", [direction.peepholes[2], c])])
        i = self._activate(direction, 0, i)
        if self._attributes.get("input_forget", 0):
            f = write.node("Sub", [write.constant(np.array(1, self._dtype)), i])
        else:
            f = self._activate(direction, 0, f)
        g = self._activate(direction, 1, g)
        c = write.node("Add", [write.node("Mul", [f, c]), write.node("Mul", [i, g])])
        if direction.peepholes:
            o = write.node("Add", [o, write.node("Mul", [direction.peepholes[1], c])])
        o = self._activate(direction, 0, o)
        # As in ONNX Runtime, `clip` bounds the gates but not the cell state.
        return write.node("Mul", [o, self._apply(direction, 2, c)]), c

    def _gru_cell(self, direction: _Direction, projected: str, h: str) -> str:
        write = self._write
        two, one = 2 * self._hidden, self._hidden
        sizes = write.integers(two, one)
        x_zr, x_h = write.node_with_results("Split", [projected, sizes], 2, axis=-1)
        product = write.node("MatMul", [h, direction.recurrent])
        if direction.candidate_recurrent:
            zr = self._activate(direction, 0, write.node("Add", [x_zr, product]))
            z, r = self._split(zr, 2)
            reset = write.node("MatMul", [write.node("Mul", [r, h]), direction.candidate_recurrent])
        else:
            if direction.recurrent_bias is not None:
                product = write.node("Add", [product, self._name(direction.recurrent_bias)])
            h_zr, h_h = write.node_with_results("Split", [product, sizes], 2, axis=-1)
            zr = self._activate(direction, 0, write.node("Add", [x_zr, h_zr]))
            z, r = self._split(zr, 2)
            reset = write.node("Mul", [r, h_h])
        new = self._activate(direction, 1, write.node("Add", [x_h, reset]))
        keep = write.node("Sub", [write.constant(np.array(1, self._dtype)), z])
        return write.node("Add", [write.node("Mul", [keep, new]), write.node("Mul", [z, h])])

    def _write_outputs(
        self, outputs: list[list[str]], last_h: list[str], last_c: list[str]
    ) -> None:
        names = [*self._node.output, "", "", ""]
        if names[0]:
            shape = (1, 1, self._batch, self._hidden)
            order = [
                outputs[direction][step]
                for step in range(self._steps)
                for direction in range(self._directions)
            ]
            rows = [self._reshape(value, *shape) for value in order]
            stacked = self._concat(rows)
            full = (self._steps, self._directions, self._batch, self._hidden)
            if self._batch_first:
                stacked = self._reshape(stacked, *full)
                self._write.named("Transpose", [stacked], [names[0]], perm=[2, 0, 1, 3])
            else:
                shape_name = self._write.integers(*full)
                self._write.named("Reshape", [stacked, shape_name], [names[0]])
        for name, states in ((names[1], last_h), (names[2], last_c)):
            if name and states[0]:
                self._write_state(name, states)

    def _reshape(self, value: str, *shape: int) -> str:
        return self._write.node("Reshape", [value, self._write.integers(*shape)])

    def _concat(self, values: Sequence[str]) -> str:
        return values[0] if len(values) == 1 else self._write.node("Concat", values, axis=0)

    def _write_state(self, name: str, states: Sequence[str]) -> None:
        rows = [self._reshape(value, 1, self._batch, self._hidden) for value in states]
        if self._batch_first:
            self._write.named("Transpose", [self._concat(rows)], [name], perm=[1, 0, 2])
        else:
            self._write.named("Concat", rows, [name], axis=0)

"""Expands DynamicQuantizeLSTM to a Scan over cells that multiply 8-bit integers.

As in ONNX Runtime on a single thread, the input is quantized once by its whole range, and the state
is quantized in each step. On several threads ONNX Runtime quantizes the sequences of a batch in
groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.rule import Rule
from rammer_mlir.frontends.onnx.node_writer import NodeWriter

_FLOAT = onnx.TensorProto.FLOAT
_X, _W, _R, _B, _H, _C, _W_SCALE, _R_SCALE = 0, 1, 2, 3, 5, 6, 8, 10


@dataclass(frozen=True)
class _Weight:
    """A quantized weight matrix of one direction of the LSTM.

    Attributes:
        values: name of the value with the matrix's integers.
        scale: name of the value with the matrix's scale, or with a scale for each column.
        zero: name of the value with the zero point, or with a zero point for each column.
    """

    values: str
    scale: str
    zero: str

    def product(self, write: NodeWriter, rows: str) -> str:
        """Emit the f32 product of float rows and the matrix; return the product's name.

        The rows are quantized with a single scale, from the range of all their elements.
        """
        quantized, scale, zero = write.node_with_results("DynamicQuantizeLinear", [rows], 3)
        product = write.node("MatMulInteger", [quantized, self.values, zero, self.zero])
        factor = write.node("Mul", [scale, self.scale])
        return write.node("Mul", [write.node("Cast", [product], to=_FLOAT), factor])


def _lstm(call: Call) -> None:
    shape = call.shape(_X)[1], call.required("hidden_size")
    kind = call.attribute("direction", "forward")
    directions = 2 if kind == "bidirectional" else 1
    expected = (directions, shape[1], 4 * shape[1])
    call.expect(call.shape(_R) == expected, f"R of shape {expected}", call.shape(_R))
    _require_default_activations(call, directions)
    results = [
        _direction(call, number, shape, is_reversed=kind == "reverse" or number == 1)
        for number in range(directions)
    ]
    for number, axis in ((0, 1), (1, 0), (2, 0)):
        axes = call.write.integers(axis)
        parts = [call.op("Unsqueeze", found[number], axes) for found in results]
        call.finish(call.op("Concat", *parts, axis=axis), number)


def _require_default_activations(call: Call, directions: int) -> None:
    found = [
        name.decode() if isinstance(name, bytes) else name
        for attribute in call.node.attribute
        if attribute.name == "activations"
        for name in helper.get_attribute_value(attribute)
    ]
    default = ["Sigmoid", "Tanh", "Tanh"] * directions
    if found and [name.lower() for name in found] != [name.lower() for name in default]:
        raise call.refusal(f"attribute 'activations': expected {default}, found {found}")


def _direction(call: Call, number: int, shape: tuple[int, int], *, is_reversed: bool) -> list[str]:
    """Emit the Scan over the steps of direction ``number``; return the names of three results.

    The results are the outputs of all steps, the last state h and the last state c. The Scan visits
    the last step first if ``is_reversed``. ``shape`` is the shape of a state: batch and hidden
    size.
    """
    projected = _weight(call, number, _W, _W_SCALE).product(call.write, call.find(_X))
    if call.find(_B):
        bias = call.write.element(call.find(_B), number)
        sizes = call.write.integers(*[4 * shape[1]] * 2)
        halves = call.write.node_with_results("Split", [bias, sizes], 2, axis=0)
        projected = call.sum(projected, *halves)
    states = [_initial(call, each, number, shape) for each in (_H, _C)]
    body = _body(call, _weight(call, number, _R, _R_SCALE), shape)
    directions = [int(is_reversed)]
    h, c, outputs = call.write.node_with_results(
        "Scan",
        [*states, projected],
        3,
        body=body,
        num_scan_inputs=1,
        scan_input_directions=directions,
        scan_output_directions=directions,
    )
    return [outputs, h, c]


def _weight(call: Call, number: int, values: int, scale: int) -> _Weight:
    names = (call.find(position) for position in (values, scale, scale + 1))
    return _Weight(*(call.write.element(name, number) for name in names))


def _initial(call: Call, position: int, number: int, shape: tuple[int, int]) -> str:
    if call.find(position):
        return call.write.element(call.find(position), number)
    return call.write.constant(np.zeros(shape, np.float32))


def _body(call: Call, weight: _Weight, shape: tuple[int, int]) -> onnx.GraphProto:
    """Return the body of the Scan over steps, with states h and c of shape ``shape``.

    The body's inputs are h, c and the step's input multiplied by the weights W, plus the bias; its
    results are the new h, the new c and the output of the step. ``weight`` is the recurrence matrix
    R.
    """
    prefix = call.write.fresh()
    write = NodeWriter(call.write.model, prefix)
    h, c, projected, new_h, new_c, output = (
        f"{prefix}/{name}" for name in ("h", "c", "projected", "new_h", "new_c", "output")
    )
    total = write.node("Add", [projected, weight.product(write, h)])
    _write_cell(write, total, (c, new_c, new_h), shape[1])
    write.named("Identity", [new_h], [output])
    rows = helper.make_tensor_value_info(projected, _FLOAT, [shape[0], 4 * shape[1]])
    inputs, outputs = (
        [helper.make_tensor_value_info(name, _FLOAT, shape) for name in names]
        for names in ((h, c), (new_h, new_c, output))
    )
    return helper.make_graph(write.nodes, f"{prefix}/cell", [*inputs, rows], outputs)


def _write_cell(write: NodeWriter, total: str, names: tuple[str, str, str], hidden: int) -> None:
    c, new_c, new_h = names
    sizes = write.integers(*[hidden] * 4)
    i, o, f, g = write.node_with_results("Split", [total, sizes], 4, axis=-1)
    i, o, f = (write.node("Sigmoid", [gate]) for gate in (i, o, f))
    added = write.node("Mul", [i, write.node("Tanh", [g])])
    write.named("Add", [write.node("Mul", [f, c]), added], [new_c])
    write.named("Mul", [o, write.node("Tanh", [new_c])], [new_h])


RULES = {
    "DynamicQuantizeLSTM": Rule(
        _lstm,
        "X W R B? sequence_lens! initial_h? initial_c? P! W_scale W_zero_point R_scale "
        "R_zero_point",
        "Y Y_h Y_c",
        "direction hidden_size activations",
        {"input_forget": 0},
    )
}

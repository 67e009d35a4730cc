"""Build RAMMER's models as the operator graphs that RAMMER's artifact executes.

Several graphs fit the names and sizes of RAMMER's Table 1. The graphs here are those of the
artifact (microsoft/nnfusion, branch osdi20_artifact, folder ``artifacts/models``) that differ from
``benchmarks.models``:

- A grouped convolution of ResNeXt is one convolution for each group. The 1x1 convolution before it
  has the stride of the stage.
- LSTM-TC has separate matrix products for each gate.
- The cells of Seq2Seq and DeepSpeech2 multiply input and state by weights in a single product.
- The groups of ResNeXt-29 keep 64 channels in all stages.
- Each of DeepSpeech2's two convolutions halves the length in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from rammer_mlir.benchmarks.models import build as build_model
from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale

CLASSES = 10


@dataclass(frozen=True)
class State:
    """State of an LSTM layer: the cell state and the hidden state, each [batch, hidden]."""

    cell: Value
    hidden: Value


class GateLayer:
    """An LSTM layer with two matrix products, of input and of state, for each of its four gates."""

    def __init__(self, g: GraphBuilder, inputs: int, hidden: int) -> None:
        """Add random weights to ``g`` for ``inputs`` input features and ``hidden`` outputs."""
        self._g = g
        self._weights = [
            [_matrix(g, rows, hidden, name) for rows, name in ((inputs, "W"), (hidden, "U"))]
            for _ in range(4)
        ]
        self._bias = [g.constant(weights.bias(g.rng, hidden), "bias") for _ in range(4)]

    def step(self, x: Value, state: State) -> State:
        """Add the nodes of one time step, with the input ``x``; return the next state."""
        g = self._g
        gates = [
            g.op("Add", g.op("Add", g.op("MatMul", x, w), g.op("MatMul", state.hidden, u)), bias)
            for (w, u), bias in zip(self._weights, self._bias, strict=True)
        ]
        return _next_state(g, gates, state)


class FusedLayer:
    """An LSTM layer with a single matrix product, of the concatenated input and state."""

    def __init__(self, g: GraphBuilder, inputs: int, hidden: int) -> None:
        """Add random weights to ``g`` for ``inputs`` input features and ``hidden`` outputs."""
        self._g = g
        self._weight = _matrix(g, inputs + hidden, 4 * hidden, "weight")
        self._bias = g.constant(weights.bias(g.rng, 4 * hidden), "bias")

    def step(self, x: Value, state: State) -> State:
        """Add the nodes of one time step, with the input ``x``; return the next state."""
        g = self._g
        both = g.op("Concat", x, state.hidden, axis=-1)
        gates = g.op("Add", g.op("MatMul", both, self._weight), self._bias)
        return _next_state(g, g.ops("Split", gates, num_outputs=4, axis=-1), state)


def _matrix(g: GraphBuilder, rows: int, columns: int, name: str) -> Value:
    return g.constant(weights.uniform(g.rng, [rows, columns], 1 / np.sqrt(rows)), name)


def _next_state(g: GraphBuilder, gates: Sequence[Value], state: State) -> State:
    """Add nodes that compute the next state of an LSTM layer; return this state.

    ``gates`` has the gates before their activations, in the order input, cell, forget, output.
    """
    enter, leave, forget = (g.op("Sigmoid", gates[n]) for n in (0, 3, 2))
    kept = g.op("Mul", forget, state.cell)
    cell = g.op("Add", kept, g.op("Mul", enter, g.op("Tanh", gates[1])))
    return State(cell, g.op("Mul", leave, g.op("Tanh", cell)))


def _zero_state(g: GraphBuilder, batch: int, hidden: int) -> State:
    zero = g.constant(np.zeros([batch, hidden], np.float32), "zero_state")
    return State(zero, zero)


def _steps(g: GraphBuilder, x: Value) -> list[Value]:
    parts = g.ops("Split", x, num_outputs=x.shape[0], axis=0)
    return [g.op("Squeeze", part, g.integers(0)) for part in parts]


def lstm_tc(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build LSTM-TC, unrolled: ``tokens`` [100, batch, 256] f32 to ``hidden`` [batch, 256] f32.

    With the scale "small", there are 5 time steps and 16 features.
    """
    length, layers, hidden = (100, 10, 256) if scale == "full" else (5, 3, 16)
    g = GraphBuilder("lstm_tc", seed=10)
    stack = [GateLayer(g, hidden, hidden) for _ in range(layers)]
    states = [_zero_state(g, batch, hidden)] * layers
    for x in _steps(g, g.input("tokens", [length, batch, hidden])):
        carried = x
        for index, layer in enumerate(stack):
            states[index] = layer.step(carried, states[index])
            carried = states[index].hidden
    g.output(states[-1].hidden, "hidden")
    return g.finish()


def seq2seq(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build Seq2Seq, unrolled: ``source`` [100, batch, 128] f32 to ``target`` [batch, 128] f32.

    The decoder's first input is the last cell state of the encoder's last layer. Every other input
    is the decoder's result of the previous time step. The model's output is the decoder's result of
    the last time step. With the scale "small", there are 5 time steps and 16 features.
    """
    length, layers, steps, decoders, hidden = (
        (100, 8, 30, 4, 128) if scale == "full" else (5, 3, 3, 2, 16)
    )
    g = GraphBuilder("seq2seq", seed=30)
    sequence = _steps(g, g.input("source", [length, batch, hidden]))
    state = _zero_state(g, batch, hidden)
    for _ in range(layers):
        sequence, state = _sequence(g, sequence, hidden)
    stack = [FusedLayer(g, hidden, hidden) for _ in range(decoders)]
    states = [_zero_state(g, batch, hidden)] * decoders
    x = state.cell
    for _ in range(steps):
        for index, layer in enumerate(stack):
            states[index] = layer.step(x, states[index])
            x = states[index].hidden
    g.output(x, "target")
    return g.finish()


def _sequence(g: GraphBuilder, steps: Sequence[Value], hidden: int) -> tuple[list[Value], State]:
    layer = FusedLayer(g, steps[0].shape[1], hidden)
    state = _zero_state(g, steps[0].shape[0], hidden)
    outputs: list[Value] = []
    for x in steps:
        state = layer.step(x, state)
        outputs.append(state.hidden)
    return outputs, state


def deepspeech2(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build DeepSpeech2, unrolled: ``spectrogram`` to ``logits``, both f32.

    ``spectrogram`` is [batch, 1, 300, 171]: 300 time steps and 171 frequencies. ``logits`` is [75 *
    batch, 29]: 75 time steps and 29 classes. With the scale "small", there are 12 time steps and 11
    frequencies.
    """
    length, frequencies, channels, layers, hidden = (
        (300, 171, 32, 7, 256) if scale == "full" else (12, 11, 4, 2, 16)
    )
    g = GraphBuilder("deepspeech2", seed=2)
    x = g.input("spectrogram", [batch, 1, length, frequencies])
    for kernel, strides in (((41, 11), [2, 2]), ((21, 11), [2, 1])):
        shape = [channels, x.shape[1], *kernel]
        weight = g.constant(weights.filters(g.rng, shape, x.moments), "weight")
        pads = [kernel[0] // 2, kernel[1] // 2] * 2
        x = g.op("Conv", x, weight, kernel_shape=list(kernel), strides=strides, pads=pads)
        limits = [g.constant(np.array(value, np.float32), "limit") for value in (0.0, 6.0)]
        x = g.batch_norm(g.op("Clip", x, *limits))
    _, _, steps, features = x.shape
    x = g.op("Transpose", x, perm=[2, 0, 1, 3])
    sequence = _steps(g, g.reshape(x, steps, batch, channels * features))
    for _ in range(layers):
        sequence, _ = _sequence(g, sequence, hidden)
    g.output(g.linear(g.op("Concat", *sequence, axis=0), 29), "logits")
    return g.finish()


def resnext29(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build ResNeXt-29, 16x64d: ``image`` [batch, 3, 32, 32] f32 to ``logits`` [batch, 10] f32.

    With the scale "small", the image has 16x16 pixels.
    """
    image, channels, blocks, groups, width = (
        (32, 64, 3, 16, 64) if scale == "full" else (16, 8, 1, 4, 4)
    )
    g = GraphBuilder("resnext29_16x64d", seed=29)
    x = g.input("image", [batch, 3, image, image])
    x = _conv_norm(g, x, channels, 3, relu=True)
    for stage in range(3):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            branch = _branches(g, x, groups, width, stride)
            branch = _conv_norm(g, branch, channels << stage, 1)
            x = g.op("Relu", g.op("Add", branch, _pooled(g, x) if stride == 2 else x))
    g.output(g.gemm(g.op("Flatten", g.op("GlobalAveragePool", x)), CLASSES), "logits")
    return g.finish()


def _pooled(g: GraphBuilder, x: Value) -> Value:
    """Add an average pooling of x that halves height and width; return the padded result.

    Channels of zeros are put before and after the pooled channels, so that the result has twice as
    many channels as x.
    """
    x = g.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    border = x.shape[1] // 2
    return g.op("Pad", x, g.integers(0, border, 0, 0, 0, border, 0, 0))


def resnext101(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build ResNeXt-101, 64x4d: ``image`` [batch, 3, 224, 224] f32 to ``logits`` [batch, 1000] f32.

    With the scale "small", the image has 32x32 pixels.
    """
    image, channels, blocks, groups = (
        (224, 256, (3, 4, 23, 3), 64) if scale == "full" else (32, 32, (1, 1, 1, 1), 4)
    )
    g = GraphBuilder("resnext101_64x4d", seed=101)
    x = g.input("image", [batch, 3, image, image])
    x = _conv_norm(g, x, 64, 7, stride=2, relu=True)
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            branch = _branches(g, x, groups, (channels << stage) // groups, stride)
            branch = _conv_norm(g, branch, channels << stage, 1)
            if x.shape != branch.shape:
                x = _conv_norm(g, x, channels << stage, 1, stride=stride)
            x = g.op("Relu", g.op("Add", branch, x))
    g.output(g.gemm(g.op("Flatten", g.op("GlobalAveragePool", x)), 1000), "logits")
    return g.finish()


def _branches(g: GraphBuilder, x: Value, groups: int, width: int, stride: int) -> Value:
    """Add, for each of ``groups`` groups, a 1x1 and a 3x3 convolution of ``width`` channels.

    Return the concatenated results of all groups. Every 1x1 convolution reads all of ``x``, with
    the stride ``stride``.
    """
    found: list[Value] = []
    for _ in range(groups):
        reduced = _conv_norm(g, x, width, 1, stride=stride, relu=True)
        found.append(_conv_norm(g, reduced, width, 3, relu=True))
    return g.op("Concat", *found, axis=1)


def _conv_norm(
    g: GraphBuilder, x: Value, channels: int, kernel: int, *, stride: int = 1, relu: bool = False
) -> Value:
    x = g.batch_norm(g.conv(x, channels, kernel, stride=stride))
    return g.op("Relu", x) if relu else x


FORMS: dict[str, Callable[[int, Scale], onnx.ModelProto]] = {
    "resnext29_16x64d": resnext29,
    "deepspeech2_unrolled": deepspeech2,
    "lstm_tc_unrolled": lstm_tc,
    "seq2seq_unrolled": seq2seq,
    "resnext101_64x4d": resnext101,
}


def build(name: str, batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the benchmark model ``name``.

    A model in ``FORMS`` has the operator graph of RAMMER's artifact. Other models are those of
    ``benchmarks.models``.

    Raises:
        OptionError: if there is no such model.
    """
    return FORMS[name](batch, scale) if name in FORMS else build_model(name, batch, scale)

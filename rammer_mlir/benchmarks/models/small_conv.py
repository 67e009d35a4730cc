"""Build small convolutional and recurrent models of our own."""

from __future__ import annotations

import math

import onnx

from rammer_mlir.benchmarks.models import nasnet, weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def build_nas_cell(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build a normal cell of NASNet-A: ``current``, ``previous`` [N, 44, 28, 28] f32 to ``y``.

    The output ``y`` is [N, 264, 28, 28] f32.
    """
    size, filters = (28, 44) if scale == "full" else (8, 8)
    g = GraphBuilder("nas_cell", seed=11)
    current = g.input("current", [batch, filters, size, size])
    previous = g.input("previous", [batch, filters, size, size])
    g.output(nasnet.normal_cell(g, current, previous, filters), "y")
    return g.finish()


def _activate(g: GraphBuilder, x: Value) -> Value:
    return g.op("HardSwish", g.batch_norm(x))


def build_depthwise_net(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build depthwise and grouped convolutions: ``image`` [N, 3, 64, 64] f32 to ``y`` [N, 10].

    The layers are an inverted residual with squeeze-and-excitation (as in MobileNetV3), a grouped
    convolution, and a dilated convolution with uneven padding.
    """
    size, channels = (64, 32) if scale == "full" else (15, 8)
    g = GraphBuilder("depthwise_net", seed=12)
    x = _activate(g, g.conv(g.input("image", [batch, 3, size, size]), channels, 3, stride=2))
    y = _activate(g, g.conv(x, 4 * channels, 1))
    y = _activate(g, g.conv(y, 4 * channels, 5, groups=4 * channels))
    squeezed = g.op("Relu", g.conv(g.op("GlobalAveragePool", y), channels, 1, with_bias=True))
    excited = g.op("HardSigmoid", g.conv(squeezed, 4 * channels, 1, with_bias=True))
    x = g.op("Add", x, g.batch_norm(g.conv(g.op("Mul", y, excited), channels, 1)))
    x = g.op("Relu", g.conv(x, 2 * channels, 3, stride=2, groups=4, with_bias=True))
    shape = [channels, x.shape[1], 3, 3]
    weight = g.constant(weights.filters(g.rng, shape, x.moments), "weight")
    x = g.op("Conv", x, weight, dilations=[2, 2], pads=[2, 1, 1, 2])
    g.output(g.gemm(g.op("Flatten", g.op("GlobalAveragePool", x)), 10), "y")
    return g.finish()


def build_conv1d(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build causal dilated convolutions over time: ``x`` [N, 16, 200] f32 to ``y`` [N, 32, 200].

    Each convolution is gated, ``tanh * sigmoid``, as in WaveNet.
    """
    length, channels = (200, 32) if scale == "full" else (20, 8)
    g = GraphBuilder("conv1d", seed=13)
    x = g.input("x", [batch, 16, length])
    for dilation in (1, 2, 4):
        shape = [2 * channels, x.shape[1], 3]
        weight = g.constant(weights.filters(g.rng, shape, x.moments), "weight")
        x = g.op("Conv", x, weight, dilations=[dilation], pads=[2 * dilation, 0])
        signal, gate = g.ops("Split", x, num_outputs=2, axis=1)
        x = g.op("Mul", g.op("Tanh", signal), g.op("Sigmoid", gate))
    g.output(x, "y")
    return g.finish()


def build_bidirectional(batch: int, scale: Scale, *, op_type: str) -> onnx.ModelProto:
    """Build a bidirectional layer of ``op_type`` (LSTM, GRU or RNN) with an initial hidden state.

    Inputs are ``x`` [20, N, 64] and ``initial`` [2, N, 64], outputs are ``y`` [20, N, 128] and
    ``last`` [2, N, 64], all f32.
    """
    length, hidden = (20, 64) if scale == "full" else (4, 6)
    g = GraphBuilder(f"{op_type.lower()}_bidirectional", seed=14)
    x = g.input("x", [length, batch, hidden])
    initial = g.input("initial", [2, batch, hidden])
    rows = GATES[op_type] * hidden
    std = 1 / math.sqrt(hidden)
    kernel = g.constant(weights.uniform(g.rng, [2, rows, hidden], std), "W")
    recurrent = g.constant(weights.uniform(g.rng, [2, rows, hidden], std), "R")
    bias = g.constant(weights.uniform(g.rng, [2, 2 * rows], 0.1), "B")
    outputs, last, *_ = g.ops(
        op_type,
        *(x, kernel, recurrent, bias, None, initial),
        num_outputs=3 if op_type == "LSTM" else 2,
        hidden_size=hidden,
        direction="bidirectional",
    )
    turned = g.op("Transpose", outputs, perm=[0, 2, 1, 3])
    g.output(g.reshape(turned, length, batch, 2 * hidden), "y")
    g.output(last, "last")
    return g.finish()

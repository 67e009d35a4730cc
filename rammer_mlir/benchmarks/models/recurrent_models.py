"""Build the recurrent models of RAMMER's Table 1: LSTM-TC, Seq2Seq-NMT and DeepSpeech2.

The table gives lengths, layers and hidden sizes; inputs are synthetic, as in the paper. Each
function documents the choices that the table leaves open. Sequences have the layout [time, batch,
features], the only layout that every implementation of ONNX's LSTM supports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import onnx

from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.losses import cross_entropy
from rammer_mlir.benchmarks.models.recurrent import (
    HIDDEN,
    State,
    StepSequence,
    draw_weights,
    make_layer,
)
from rammer_mlir.benchmarks.models.scale import Scale


@dataclass(frozen=True)
class LstmTc:
    """Sizes of LSTM-TC: sequence length, layers, hidden units, classes."""

    length: int
    layers: int
    hidden: int
    classes: int


@dataclass(frozen=True)
class Seq2Seq:
    """Sizes of Seq2Seq-NMT: sequence length and layers of encoder and decoder, and hidden units."""

    encoder_length: int
    encoder_layers: int
    decoder_length: int
    decoder_layers: int
    hidden: int


@dataclass(frozen=True)
class DeepSpeech2:
    """Sizes of DeepSpeech2.

    ``length`` and ``frequencies`` are the sizes of the spectrogram. ``channels`` is the number of
    channels of the convolutions. ``layers`` and ``hidden`` are the numbers of LSTM layers and of
    hidden units. ``characters`` is the number of classes.
    """

    length: int
    frequencies: int
    channels: int
    layers: int
    hidden: int
    characters: int


LSTM_TC_SIZES = {"full": LstmTc(100, 10, 256, 10), "small": LstmTc(5, 3, 16, 10)}
LSTM_TC_TRAINING = {
    "full": (256, LSTM_TC_SIZES["full"]),
    "reduced": (256, LstmTc(10, 4, 128, 10)),
    "small": (3, LSTM_TC_SIZES["small"]),
}
"""Batch and sizes of LSTM-TC for training, by size: as published, reduced, and for tests."""
SEQ2SEQ_SIZES = {"full": Seq2Seq(100, 8, 30, 4, 128), "small": Seq2Seq(5, 3, 3, 2, 16)}
DEEPSPEECH2_SIZES = {
    "full": DeepSpeech2(300, 161, 32, 7, 256, 29),
    "small": DeepSpeech2(10, 21, 4, 2, 16, 29),
}


def build_lstm_tc(
    batch: int, scale: Scale, *, unrolled: bool, layers: int | None = None
) -> onnx.ModelProto:
    """Build LSTM-TC: ``tokens`` [100, N, 256] f32 (embedded) to ``probabilities`` [N, 10] f32.

    The classifier reads the last hidden state of the last layer. ``layers`` is the number of
    layers, 10 by default. If ``unrolled``, every time step of a layer has its own elementary
    operators; otherwise each layer is an LSTM operator.
    """
    size = LSTM_TC_SIZES[scale]
    if layers is not None:
        size = replace(size, layers=layers)
    g = GraphBuilder("lstm_tc", seed=10)
    tokens = g.input("tokens", [size.length, batch, size.hidden])
    _, state = _lstm_stack(g, tokens, size.hidden, size.layers, unrolled)
    g.output(g.op("Softmax", g.gemm(state[-1].hidden, size.classes), axis=-1), "probabilities")
    return g.finish()


def build_lstm_tc_loss(size: Literal["full", "reduced", "small"]) -> onnx.ModelProto:
    """Build LSTM-TC, unrolled, with a loss: ``tokens`` [100, N, 256] f32, ``label`` [N] i64.

    The output is ``loss`` [] f32. The batch size is 256 as in Figure 21, and 3 for the size
    "small". The paper does not name the loss; the model uses cross entropy.
    """
    batch, sizes = LSTM_TC_TRAINING[size]
    g = GraphBuilder("lstm_tc_training", seed=10)
    tokens = g.input("tokens", [sizes.length, batch, sizes.hidden])
    labels = g.input("label", [batch], onnx.TensorProto.INT64)
    _, state = _lstm_stack(g, tokens, sizes.hidden, sizes.layers, unrolled=True)
    g.output(cross_entropy(g, g.gemm(state[-1].hidden, sizes.classes), labels), "loss")
    return g.finish()


def build_seq2seq(
    batch: int, scale: Scale, *, unrolled: bool, layers: int | None = None
) -> onnx.ModelProto:
    """Build Seq2Seq: ``source`` [100, N, 128] f32 (embedded) to ``target`` [30, N, 128] f32.

    The initial states of the decoder's layers are the final states of the encoder's last layers.
    The decoder's input is a constant at the first time step; later, it is the hidden state that the
    decoder's last layer computed at the previous time step. So the decoder is serial in time, as in
    translation. ``layers`` is the number of encoder layers, 8 by default. If ``unrolled``, every
    time step of a layer has its own elementary operators; otherwise an encoder layer is an LSTM
    operator, and a decoder layer has an LSTM operator for each time step.
    """
    size = SEQ2SEQ_SIZES[scale]
    if layers is not None:
        size = replace(size, encoder_layers=layers)
    g = GraphBuilder("seq2seq", seed=30)
    source = g.input("source", [size.encoder_length, batch, size.hidden])
    with g.scope("encoder"):
        _, states = _lstm_stack(g, source, size.hidden, size.encoder_layers, unrolled)
    states = states[-size.decoder_layers :]
    with g.scope("decoder"):
        decoder = [
            make_layer(g, draw_weights(g, size.hidden, size.hidden), unrolled)
            for _ in range(size.decoder_layers)
        ]
        start = weights.uniform(g.rng, [batch, size.hidden], HIDDEN.std)
        x = g.constant(start, "start")
        outputs: list[Value] = []
        for t in range(size.decoder_length):
            for index, layer in enumerate(decoder):
                with g.scope(f"step{t}/layer{index}"):
                    states[index] = layer.step(x, states[index])
                x = states[index].hidden
            outputs.append(x)
    g.output(StepSequence(g, outputs).stacked, "target")
    return g.finish()


def build_deepspeech2(
    batch: int, scale: Scale, *, unrolled: bool, layers: int | None = None
) -> onnx.ModelProto:
    """Build DeepSpeech2: ``spectrogram`` [N, 1, 300, 161] f32 to ``log_probabilities``.

    The output is [150, N, 29] f32. The model has
    - two convolutions over time and frequency, 11x41 with stride 2x2 and 11x21 with stride 1x2,
      each with a batch norm and a ReLU clipped at 20 (Amodei et al., ICML 2016);
    - LSTM layers, without batch norms between the layers;
    - a classifier of characters at every time step.

    ``layers`` is the number of LSTM layers, 7 by default. If ``unrolled``, every time step of a
    layer has its own elementary operators; otherwise each layer is an LSTM operator.
    """
    size = DEEPSPEECH2_SIZES[scale]
    if layers is not None:
        size = replace(size, layers=layers)
    g = GraphBuilder("deepspeech2", seed=2)
    x = g.input("spectrogram", [batch, 1, size.length, size.frequencies])
    x = _spectral_conv(g, x, size.channels, kernel=(11, 41), stride=(2, 2))
    x = _spectral_conv(g, x, size.channels, kernel=(11, 21), stride=(1, 2))
    _, channels, length, frequencies = x.shape
    x = g.op("Transpose", x, perm=[2, 0, 1, 3])
    x = g.reshape(x, length, batch, channels * frequencies)
    hidden, _ = _lstm_stack(g, x, size.hidden, size.layers, unrolled)
    logits = g.linear(hidden.stacked, size.characters)
    g.output(g.op("LogSoftmax", logits, axis=-1), "log_probabilities")
    return g.finish()


def _lstm_stack(
    g: GraphBuilder, x: Value, hidden: int, layers: int, unrolled: bool
) -> tuple[StepSequence, list[State]]:
    """Add LSTM layers on x [T, N, features]; return the last layer's outputs and all final states.

    If ``unrolled``, every time step of a layer has its own elementary operators; otherwise each
    layer is an LSTM operator.
    """
    sequence = StepSequence(g, x)
    states: list[State] = []
    features, moments = x.shape[2], x.moments
    for layer in range(layers):
        with g.scope(f"lstm{layer}"):
            drawn = draw_weights(g, features, hidden, moments)
            sequence, state = make_layer(g, drawn, unrolled).sequence(sequence)
        states.append(state)
        features, moments = hidden, HIDDEN
    return sequence, states


def _spectral_conv(
    g: GraphBuilder, x: Value, channels: int, kernel: tuple[int, int], stride: tuple[int, int]
) -> Value:
    shape = [channels, x.shape[1], *kernel]
    weight = g.constant(weights.filters(g.rng, shape, x.moments), "weight")
    pads = [kernel[0] // 2, kernel[1] // 2] * 2
    x = g.op("Conv", x, weight, kernel_shape=list(kernel), strides=list(stride), pads=pads)
    limits = [g.constant(np.array(value, np.float32), "limit") for value in (0.0, 20.0)]
    return g.op("Clip", g.batch_norm(x), *limits)

"""List all benchmark models by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import onnx

from rammer_mlir.benchmarks.models import (
    alexnet,
    darknet53,
    faster_rcnn,
    inception_v3,
    light,
    mobilenet_v2,
    nasnet,
    randwire,
    recurrent_models,
    resnet,
    resnext,
    small,
    small_conv,
    squeezenet,
    ssd,
    vgg,
)
from rammer_mlir.benchmarks.models.scale import Scale
from rammer_mlir.errors import OptionError

BuildFunction = Callable[[int, Scale], onnx.ModelProto]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Model:
    """A benchmark model.

    Attributes:
        build: returns the ONNX model for a batch size and a scale.
        description: a few words for tables.
        shapes: shapes of the inputs at full scale and batch 1, by name.
    """

    build: BuildFunction
    description: str
    shapes: Shapes


IMAGE = (1, 3, 224, 224)
CIFAR: Shapes = {"image": (1, 3, 32, 32)}
SPECTROGRAM: Shapes = {"spectrogram": (1, 1, 300, 161)}
TOKENS: Shapes = {"tokens": (100, 1, 256)}
SOURCE: Shapes = {"source": (100, 1, 128)}
RECURRENT: Shapes = {"x": (20, 1, 64), "initial": (2, 1, 64)}
MULTI_IO: Shapes = {"left": (1, 24, 32), "right": (1, 24, 32), "gain": (32,)}
INTEGERS: Shapes = {"a": (1, 100), "b": (1, 100), "flags": (1, 100)}
CELL: Shapes = {"current": (1, 44, 28, 28), "previous": (1, 44, 28, 28)}


def _lstm_tc(unrolled: bool) -> BuildFunction:
    return partial(recurrent_models.build_lstm_tc, unrolled=unrolled)


def _seq2seq(unrolled: bool) -> BuildFunction:
    return partial(recurrent_models.build_seq2seq, unrolled=unrolled)


def _deepspeech2(unrolled: bool) -> BuildFunction:
    return partial(recurrent_models.build_deepspeech2, unrolled=unrolled)


def _light(name: str, description: str, image: str) -> Model:
    return Model(partial(light.build, light.NETWORKS[name]), description, {image: IMAGE})


def _bidirectional(op_type: str) -> BuildFunction:
    return partial(small_conv.build_bidirectional, op_type=op_type)


TABLE_1: dict[str, Model] = {
    "resnext29_16x64d": Model(resnext.build, "ResNeXt-29, cardinality 16, width 64", CIFAR),
    "nasnet_a_6_768": Model(nasnet.build, "NASNet-A, 6 cells a stack, 768 channels", CIFAR),
    "alexnet": Model(alexnet.build, "AlexNet for one device", {"image": IMAGE}),
    "deepspeech2": Model(_deepspeech2(False), "DeepSpeech2, LSTM operators", SPECTROGRAM),
    "deepspeech2_unrolled": Model(_deepspeech2(True), "DeepSpeech2, unrolled", SPECTROGRAM),
    "lstm_tc": Model(_lstm_tc(False), "LSTM-TC, 10 LSTM operators of 100 steps", TOKENS),
    "lstm_tc_unrolled": Model(_lstm_tc(True), "LSTM-TC, 1000 cells", TOKENS),
    "seq2seq": Model(_seq2seq(False), "Seq2Seq-NMT, LSTM operators", SOURCE),
    "seq2seq_unrolled": Model(_seq2seq(True), "Seq2Seq-NMT, 920 cells", SOURCE),
}
"""The models of RAMMER's Table 1, the recurrent models in two forms."""

LIGHT: dict[str, Model] = {
    "light_alexnet": _light("light_alexnet", "AlexNet of Caffe, grouped", "data_0"),
    "light_densenet121": _light("light_densenet121", "DenseNet-121", "data_0"),
    "light_inception_v1": _light("light_inception_v1", "Inception v1 (GoogLeNet)", "data_0"),
    "light_inception_v2": _light("light_inception_v2", "Inception v2", "data_0"),
    "light_resnet50": _light("light_resnet50", "ResNet-50", "gpu_0/data_0"),
    "light_shufflenet": _light("light_shufflenet", "ShuffleNet v1, 4 groups", "gpu_0/data_0"),
    "light_squeezenet": _light("light_squeezenet", "SqueezeNet 1.1", "data_0"),
    "light_vgg19": _light("light_vgg19", "VGG-19", "data_0"),
    "light_zfnet512": _light("light_zfnet512", "ZFNet-512", "gpu_0/data_0"),
}
"""The networks of the onnx package."""

IOS: dict[str, Model] = {
    "inception_v3": Model(inception_v3.build, "Inception v3", {"image": (1, 3, 299, 299)}),
    "randwire": Model(randwire.build, "RandWire, regular regime, 154 channels", {"image": IMAGE}),
    "nasnet_a_6_4032": Model(
        nasnet.build_large, "NASNet-A, 6 cells a stack, 4032 channels", {"image": (1, 3, 331, 331)}
    ),
    "squeezenet": Model(squeezenet.build, "SqueezeNet 1.0, complex bypass", {"image": IMAGE}),
}
"""The networks that IOS schedules (its Table 2)."""

CLASSIFIERS: dict[str, Model] = {
    "resnet18": Model(resnet.build_18, "ResNet-18", {"image": IMAGE}),
    "resnet50": Model(resnet.build_50, "ResNet-50, strides in 3x3", {"image": IMAGE}),
    "darknet53": Model(darknet53.build, "DarkNet-53", {"image": (1, 3, 256, 256)}),
    "vgg19": Model(vgg.build, "VGG-19", {"image": IMAGE}),
}
"""Networks that "Bring Your Own Codegen" offloads, and that the other papers do not have."""

OWN: dict[str, Model] = {
    "one_element": Model(small.build_one_element, "a launch and nothing else", {"x": (1,)}),
    "mlp": Model(small.build_mlp, "perceptron of two hidden layers", {"x": (1, 784)}),
    "attention": Model(small.build_attention, "self-attention, 8 heads", {"x": (1, 64, 256)}),
    "transformer_encoder": Model(
        small.build_transformer_encoder, "transformer encoder layer", {"x": (1, 64, 256)}
    ),
    "transformer_4_layers": Model(
        partial(small.build_transformer_encoder, layers=4),
        "transformer encoder of 4 layers",
        {"x": (1, 64, 256)},
    ),
    "mobilenet_v2": Model(mobilenet_v2.build, "MobileNet v2", {"image": IMAGE}),
    "layer_norm_head": Model(
        small.build_layer_norm_head, "layer norms and log-softmax", {"x": (1, 32, 256)}
    ),
    "embedding": Model(small.build_embedding, "masked bag of words", {"tokens": (1, 32)}),
    "multi_io": Model(small.build_multi_io, "three inputs, three outputs, views", MULTI_IO),
    "integer_ops": Model(small.build_integer_ops, "integers and booleans", INTEGERS),
    "nas_cell": Model(small_conv.build_nas_cell, "normal cell of NASNet-A", CELL),
    "depthwise_net": Model(
        small_conv.build_depthwise_net,
        "depthwise, grouped and dilated convolutions",
        {"image": (1, 3, 64, 64)},
    ),
    "conv1d": Model(small_conv.build_conv1d, "gated causal convolutions", {"x": (1, 16, 200)}),
    "lstm_bidirectional": Model(_bidirectional("LSTM"), "LSTM, both directions", RECURRENT),
    "gru_bidirectional": Model(_bidirectional("GRU"), "GRU, both directions", RECURRENT),
    "rnn_bidirectional": Model(_bidirectional("RNN"), "plain RNN, both directions", RECURRENT),
}
"""Models for cases that the published sets do not cover, most of them small."""

DETECTORS: dict[str, Model] = {
    "ssd_512_mobilenet": Model(
        ssd.build_mobilenet, "SSD 512 on MobileNet v1", {"image": (1, 3, 512, 512)}
    ),
    "ssd_300_resnet34": Model(
        ssd.build_resnet, "SSD 300 on ResNet-34", {"image": (1, 3, 300, 300)}
    ),
    "faster_rcnn_resnet50_fpn": Model(
        faster_rcnn.build, "Faster R-CNN on ResNet-50 with FPN", {"image": (1, 3, 512, 512)}
    ),
}
"""Detectors of "Bring Your Own Codegen"; the host runs them, since suppression needs data."""

IMAGENET: dict[str, Model] = {
    "resnext101_64x4d": Model(
        resnext.build_imagenet, "ResNeXt-101, cardinality 64, width 4", {"image": IMAGE}
    ),
    "nasnet_a_4_1056": Model(
        nasnet.build_mobile, "NASNet-A, 4 cells a stack, 1056 channels", {"image": IMAGE}
    ),
}
"""The networks of RAMMER's Figure 13, which are only scheduled, on the simulator."""

MODELS: dict[str, Model] = {**TABLE_1, **LIGHT, **IOS, **CLASSIFIERS, **OWN}
"""Every benchmark model that is compiled to a single program of static shapes, by name."""

ALL_MODELS: dict[str, Model] = {**MODELS, **IMAGENET, **DETECTORS}
"""All benchmark models, including detectors and networks that are only scheduled."""


def build(name: str, batch: int = 1, scale: Scale = "full") -> onnx.ModelProto:
    """Build benchmark model ``name`` with seeded weights; raise OptionError for unknown names."""
    if name not in ALL_MODELS:
        known = ", ".join(ALL_MODELS)
        raise OptionError(f"model: expected one of {known}; found '{name}'; choose one of these")
    return ALL_MODELS[name].build(batch, scale)

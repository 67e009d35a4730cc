"""Define Keras models, built from layers or taken from ``keras.applications``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import IMAGES, SEQUENCES, SIZED_IMAGES, Model

FRAMES = (Input("x", ("batch", "length", 16)),)
IDS = (Input("ids", ("batch", "length"), "tokens"),)
EXPORTERS = ("keras", "tf2onnx")


def _sequence(name: str, make: Callable[[Any], Any], cases: Any = SEQUENCES) -> Model:
    def built() -> Any:
        x = keras.Input((None, 16), name="x")
        return keras.Model(x, make(x))

    return Model(name, built, FRAMES, cases, EXPORTERS)


def _tokens(name: str, make: Callable[[Any], Any]) -> Model:
    def built() -> Any:
        x = keras.Input((None,), dtype="int32", name="ids")
        return keras.Model(x, make(x))

    return Model(name, built, IDS, SEQUENCES, EXPORTERS)


def _images(name: str, make: Callable[[Any], Any], size: int | None = None) -> Model:
    def built() -> Any:
        x = keras.Input((size, size, 3), name="x")
        return keras.Model(x, make(x))

    sizes = (size, size) if size else ("height", "width")
    inputs = (Input("x", ("batch", *sizes, 3)),)
    return Model(name, built, inputs, IMAGES if size else SIZED_IMAGES, EXPORTERS)


def _application(name: str, size: int | None, **options: Any) -> Model:
    shape = (size, size, 3)

    def built() -> Any:
        make = getattr(keras.applications, name)
        x = keras.Input(shape, name="x")
        return make(weights=None, input_tensor=x, include_top=False, pooling="avg", **options)

    sizes = (size, size) if size else ("height", "width")
    inputs = (Input("x", ("batch", *sizes, 3)),)
    cases = IMAGES if size else SIZED_IMAGES
    return Model(f"keras_{name.lower()}", built, inputs, cases, EXPORTERS)


def _gelu(x: Any) -> Any:
    return ops.gelu(x, approximate=True)


def _transformer(x: Any) -> Any:
    x = layers.Embedding(100, 16)(x)
    positions = ops.cumsum(ops.ones_like(x[..., 0], dtype="int32"), axis=1) - 1
    x = x + layers.Embedding(1100, 16)(positions)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, 4)(y, y, use_causal_mask=True)
        y = layers.Dense(32, activation=_gelu)(layers.LayerNormalization()(x))
        x = x + layers.Dense(16)(y)
    return layers.Dense(100)(x)


def _masked(x: Any) -> Any:
    x = layers.Embedding(100, 16, mask_zero=True)(x)
    return layers.Dense(4)(layers.Bidirectional(layers.LSTM(12))(x))


def _convolutions(x: Any) -> Any:
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.BatchNormalization()(layers.SeparableConv2D(16, 3, padding="same")(x))
    x = layers.DepthwiseConv2D(5, strides=2, padding="same", activation="swish")(x)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    return layers.Dense(5, activation="softmax")(layers.GlobalAveragePooling2D()(x))


def _unet(x: Any) -> Any:
    skip = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.MaxPooling2D()(skip))
    y = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(y)
    y = layers.Concatenate()([skip, y])
    y = layers.UpSampling2D(2)(layers.AveragePooling2D(2)(y))
    return layers.Conv2D(3, 1, activation="softmax")(y)


def _conv1d(x: Any) -> Any:
    x = layers.Conv1D(16, 3, padding="causal", dilation_rate=2, activation="relu")(x)
    x = layers.LayerNormalization()(layers.TimeDistributed(layers.Dense(12))(x))
    return layers.GlobalMaxPooling1D()(x)


def _gru_stack(x: Any) -> Any:
    x = layers.Bidirectional(layers.GRU(12, return_sequences=True))(x)
    return layers.Dense(3)(layers.GRU(8, reset_after=False)(x))


def _mlp() -> Any:
    x = keras.Input((16,), name="x")
    y = layers.Dense(32, activation="selu")(x)
    y = layers.Dropout(0.5)(layers.BatchNormalization()(y))
    return keras.Model(x, layers.Dense(4, activation="softmax")(y))


MODELS = (
    _sequence("keras_lstm", lambda x: layers.LSTM(12, return_sequences=True)(x)),
    _sequence("keras_gru", _gru_stack),
    _sequence("keras_rnn", lambda x: layers.SimpleRNN(12)(x)),
    _sequence("keras_conv1d", _conv1d, SEQUENCES),
    _tokens("keras_masked_lstm", _masked),
    _tokens("keras_transformer", _transformer),
    _images("keras_convolutions", _convolutions),
    _images("keras_unet", _unet),
    Model("keras_mlp", _mlp, (Input("x", ("batch", 16)),), IMAGES, EXPORTERS),
    _application("MobileNetV2", None, alpha=0.35),
    _application("MobileNetV3Small", None),
    _application("EfficientNetB0", None),
    _application("DenseNet121", 64),
    _application("InceptionV3", 96),
    _application("Xception", 96),
    _application("NASNetMobile", 64),
)

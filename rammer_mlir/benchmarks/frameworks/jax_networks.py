"""Define convolutional networks and a transformer in plain jax.numpy, with training losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Parameters = dict[str, Any]


def _random(seed: int) -> Callable[..., NDArray[np.float32]]:
    generator = np.random.default_rng(seed)

    def array(*shape: int) -> NDArray[np.float32]:
        scale = np.prod(shape[:-1]) ** -0.5
        return (generator.standard_normal(shape) * scale).astype(np.float32)

    return array


def convolutional_parameters(channels: int = 8, classes: int = 5) -> Parameters:
    """Return random weights of two convolutions and a classifier, by name."""
    array = _random(1)
    return {
        "first": array(3, 3, 3, channels),
        "second": array(3, 3, channels, 2 * channels),
        "out": array(2 * channels, classes),
    }


def convolutional(parameters: Parameters, images: jax.Array) -> jax.Array:
    """Return logits [N, classes] of images [N, H, W, 3]."""
    x = images
    for name in ("first", "second"):
        x = jax.lax.conv_general_dilated(
            x, parameters[name], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    return jnp.mean(x, (1, 2)) @ parameters["out"]


def _cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    log = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(log, labels[:, None], -1))


def convolutional_loss(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross entropy of the network's logits for ``images`` against ``labels``."""
    return _cross_entropy(convolutional(parameters, images), labels)


def residual_parameters(width: int = 64, stages: int = 4, classes: int = 1000) -> Parameters:
    """Return random weights of ResNet-18 (He et al., 2016) with folded batch normalizations.

    Each of ``stages`` stages has two blocks; the first stage has ``width`` channels, and each
    later stage has twice as many channels as the previous stage.
    """
    generator = np.random.default_rng(3)

    def layer(channels: int, inputs: int, size: int) -> Parameters:
        scale = (2 / (inputs * size * size)) ** 0.5
        weights = scale * generator.standard_normal((channels, inputs, size, size))
        bias = 0.1 * generator.standard_normal(channels)
        return {"weights": weights.astype(np.float32), "bias": bias.astype(np.float32)}

    blocks: list[Parameters] = []
    inputs = width
    for number in range(2 * stages):
        channels = width << number // 2
        block = {"first": layer(channels, inputs, 3), "second": layer(channels, channels, 3)}
        if channels != inputs:
            block["shortcut"] = layer(channels, inputs, 1)
        blocks.append(block)
        inputs = channels
    out = (generator.standard_normal((inputs, classes)) * inputs**-0.5).astype(np.float32)
    return {"stem": layer(width, 3, 7), "blocks": blocks, "out": out}


def _layer(parameters: Parameters, x: jax.Array, stride: int) -> jax.Array:
    weights = parameters["weights"]
    padding = weights.shape[2] // 2
    y = jax.lax.conv_general_dilated(x, weights, (stride, stride), [(padding, padding)] * 2)
    return y + parameters["bias"][:, None, None]


def residual(parameters: Parameters, images: jax.Array) -> jax.Array:
    """Return ResNet-18's logits [N, classes] of images [N, 3, H, W]."""
    x = jax.nn.relu(_layer(parameters["stem"], images, 2))
    window, strides, padding = (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)]
    x = jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, strides, padding)
    for block in parameters["blocks"]:
        stride = 2 if "shortcut" in block else 1
        y = jax.nn.relu(_layer(block["first"], x, stride))
        shortcut = _layer(block["shortcut"], x, 2) if stride == 2 else x
        x = jax.nn.relu(_layer(block["second"], y, 1) + shortcut)
    return jnp.mean(x, (2, 3)) @ parameters["out"]


def residual_loss(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross entropy of ResNet-18's logits for ``images`` against ``labels``."""
    return _cross_entropy(residual(parameters, images), labels)


def transformer_parameters(words: int = 50, width: int = 32, layers: int = 2) -> Parameters:
    """Return random weights of a causal transformer; the embedding is also the output layer."""
    array = _random(2)
    return {
        "words": array(words, width),
        "places": array(64, width),
        "layers": [
            {
                "joint": array(width, 3 * width), "out": array(width, width),
                "up": array(width, 4 * width), "down": array(4 * width, width),
            }
            for _ in range(layers)
        ],
    }  # fmt: skip


def _normalized(x: jax.Array) -> jax.Array:
    centered = x - x.mean(-1, keepdims=True)
    return centered / jnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def transformer(parameters: Parameters, ids: jax.Array, heads: int = 4) -> jax.Array:
    """Return a causal transformer's logits [T, words] for token ids [T].

    GELU is computed by its approximation with tanh, as in GPT-2.
    """
    tokens = ids.shape[0]
    x = parameters["words"][ids] + parameters["places"][:tokens]
    width = x.shape[1]
    for layer in parameters["layers"]:
        parts = jnp.split(x @ layer["joint"], 3, -1)
        q, k, v = (p.reshape(tokens, heads, width // heads).transpose(1, 0, 2) for p in parts)
        scores = jnp.einsum("htd,hsd->hts", q, k) / np.sqrt(width // heads)
        seen = jnp.tril(jnp.ones((tokens, tokens), bool))
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), -1)
        joined = jnp.einsum("hts,hsd->htd", weights, v).transpose(1, 0, 2)
        x = _normalized(x + joined.reshape(tokens, width) @ layer["out"])
        x = _normalized(x + jax.nn.gelu(x @ layer["up"], approximate=True) @ layer["down"])
    return x @ parameters["words"].T


def transformer_loss(parameters: Parameters, ids: jax.Array, heads: int = 4) -> jax.Array:
    """Return the mean cross entropy of predicting each token of ``ids`` from its predecessors."""
    return _cross_entropy(transformer(parameters, ids[:-1], heads), ids[1:])

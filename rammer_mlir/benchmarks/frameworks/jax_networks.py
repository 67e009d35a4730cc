"""Define a convolutional network and a transformer in plain jax.numpy, with training losses."""

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


def convolutional_loss(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross entropy of the network's logits for ``images`` against ``labels``."""
    log = jax.nn.log_softmax(convolutional(parameters, images))
    return -jnp.mean(jnp.take_along_axis(log, labels[:, None], -1))


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
    """Return a causal transformer's logits [T, words] for the token ids ``ids`` [T]."""
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
        x = _normalized(x + jax.nn.gelu(x @ layer["up"], approximate=False) @ layer["down"])
    return x @ parameters["words"].T


def transformer_loss(parameters: Parameters, ids: jax.Array) -> jax.Array:
    """Return the mean cross entropy of predicting each token of ``ids`` from its predecessors."""
    log = jax.nn.log_softmax(transformer(parameters, ids[:-1]))
    return -jnp.mean(jnp.take_along_axis(log, ids[1:, None], -1))

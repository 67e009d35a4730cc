"""Define models of Flax (``linen`` and ``nnx``) and of plain JAX functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import IMAGES, SEQUENCES, Model

FRAMES = (Input("x", ("batch", "length", 16)),)


def _mlp() -> Any:
    rngs = nnx.Rngs(0)
    layers = [nnx.Linear(16, 32, rngs=rngs), nnx.gelu, nnx.Linear(32, 4, rngs=rngs)]
    return nnx.Sequential(*layers)


class Convolutions(nnx.Module):
    """A classifier of images, in Flax's ``nnx``: two convolutions, a norm, and pooling."""

    def __init__(self) -> None:
        """Make the layers."""
        rngs = nnx.Rngs(0)
        self.first = nnx.Conv(3, 8, (3, 3), strides=2, rngs=rngs)
        self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.second = nnx.Conv(8, 16, (3, 3), feature_group_count=2, rngs=rngs)
        self.head = nnx.Linear(16, 5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        """Return the log-probabilities [N, 5] of five classes for images ``x`` [N, H, W, 3]."""
        x = nnx.relu(self.norm(self.first(x)))
        x = nnx.max_pool(nnx.silu(self.second(x)), window_shape=(2, 2), strides=(2, 2))
        return nnx.log_softmax(self.head(x.mean((1, 2))))


class Block(nnx.Module):
    """A transformer block in Flax's ``nnx``."""

    def __init__(self) -> None:
        """Make the layers."""
        rngs = nnx.Rngs(0)
        self.norms = nnx.List([nnx.LayerNorm(16, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(4, 16, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 16, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        """Return the block's hidden states for ``x``; they have the shape of ``x``."""
        x = x + self.attention(self.norms[0](x))
        return x + self.down(nnx.gelu(self.up(self.norms[1](x))))


def _attention() -> Any:
    key = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(key, i), (16, 16)) * 0.1 for i in range(3)]

    def attend(x: Any) -> Any:
        query, keys, values = (jnp.einsum("btc,cd->btd", x, w) for w in weights)
        scores = jnp.einsum("bqd,bkd->bqk", query, keys) / 4
        return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), values)

    return attend


def _scan() -> Any:
    weights = jax.random.normal(jax.random.key(0), (32, 16)) * 0.1

    def run(x: Any) -> Any:
        def step(state: Any, frame: Any) -> Any:
            state = jnp.tanh(jnp.concatenate([state, frame], -1) @ weights)
            return state, state

        _, states = jax.lax.scan(step, jnp.zeros((x.shape[0], 16)), jnp.swapaxes(x, 0, 1))
        return jnp.swapaxes(states, 0, 1)

    return run


def _normalized() -> Any:
    def run(x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)
        return jnp.where(x > 0, jnp.log1p(jnp.abs(x)), jnp.expm1(-jnp.abs(x))).max(1)

    return run


JAX = ("jax2onnx",)
MODELS = (
    Model("jax_mlp", _mlp, (Input("x", ("batch", 16)),), IMAGES, JAX),
    Model("jax_convolutions", Convolutions, (Input("x", ("batch", 32, 32, 3)),), IMAGES, JAX),
    Model("jax_transformer", Block, FRAMES, SEQUENCES, JAX),
    Model("jax_attention", _attention, FRAMES, SEQUENCES, JAX),
    Model("jax_scan", _scan, (Input("x", ("batch", 12, 16)),), IMAGES, JAX),
    Model("jax_normalized", _normalized, FRAMES, SEQUENCES, JAX),
)

"""Compile and time a JAX network, or its gradient, by one interface, in a separate process."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx

import rammer_mlir
import rammer_mlir.jax
from rammer_mlir.benchmarks.frameworks import jax_models, jax_networks

RUNS = 5
"""Number of timed runs of a process in a round."""

ONNX, RAMMER, JAX, GRADIENT, JAX_GRADIENT = WAYS = (
    "onnx", "rammer_mlir.jax.jit", "jax.jit", "gradient by rammer_mlir.jax.jit",
    "gradient by jax.jit",
)  # fmt: skip
"""The names of the interfaces.

``onnx`` compiles a model in ONNX of the same network. Gradients are those of the loss, with respect
to all parameters.
"""


@dataclass(frozen=True)
class Network:
    """A network in JAX with its inputs, and the same network in ONNX.

    Attributes:
        parameters: the weights.
        forward: function of the parameters and ``inputs`` that returns the logits.
        inputs: the inputs.
        loss: function of the parameters and ``samples`` that returns the loss.
        samples: inputs with the expected results.
        model: returns the network in ONNX, whose input is named ``x``.
    """

    parameters: jax_networks.Parameters
    forward: Callable[..., Any]
    inputs: tuple[Any, ...]
    loss: Callable[..., Any]
    samples: tuple[Any, ...]
    model: Callable[[], onnx.ModelProto]


def _residual(*, small: bool) -> Network:
    parameters = jax_networks.residual_parameters(*((8, 2, 10) if small else ()))
    size = 32 if small else 224
    images = np.random.default_rng(5).standard_normal((1, 3, size, size)).astype(np.float32)
    return Network(
        parameters, jax_networks.residual, (images,), jax_networks.residual_loss,
        (images, np.array([3], np.int32)), lambda: jax_models.residual_model(parameters, size),
    )  # fmt: skip


def _decoder(*, small: bool) -> Network:
    words, width, layers, heads, tokens = (50, 32, 2, 4, 8) if small else (50257, 768, 12, 12, 64)
    parameters = jax_networks.transformer_parameters(words, width, layers)
    ids = np.random.default_rng(5).integers(0, words, tokens + 1).astype(np.int32)
    return Network(
        parameters,
        lambda given, ids: jax_networks.transformer(given, ids, heads),
        (ids[:-1],),
        lambda given, ids: jax_networks.transformer_loss(given, ids, heads),
        (ids,),
        lambda: jax_models.transformer_model(parameters, tokens, heads),
    )


NETWORKS: Mapping[str, Callable[..., Network]] = {"resnet18": _residual, "decoder": _decoder}
"""Functions that make a network, with an argument ``small`` for reduced sizes, by name."""


def _function(network: Network, way: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function that the interface ``way`` compiles, and the function's arguments.

    For the interfaces ``GRADIENT`` and ``JAX_GRADIENT``, the function computes the network's loss
    and the gradient of the loss with respect to all parameters, which are arguments. For other
    interfaces, it computes the network's logits.
    """
    # Functions index the parameters with traced values, which needs arrays of JAX.
    parameters = jax.tree.map(jnp.asarray, network.parameters)
    if way in (GRADIENT, JAX_GRADIENT):
        return jax.value_and_grad(network.loss), (parameters, *network.samples)
    return functools.partial(network.forward, parameters), network.inputs


class CompiledFunction:
    """A network, or the gradient of its loss, compiled by an interface such as ``jax.jit``.

    The object is made and called in a separate process, that of a ``Lane``.
    """

    def __init__(self, way: str, name: str, *, small: bool, model: Path, threads: int) -> None:
        """Compile a network, or the gradient of its loss.

        Args:
            way: the interface, one of ``WAYS``; it also says whether the gradient is compiled.
            name: the network, a key of ``NETWORKS``.
            small: whether to take the network's reduced sizes.
            model: the same network as an ONNX file.
            threads: number of vEUs; JAX takes all cores that the process may use.
        """
        function, arguments = _function(NETWORKS[name](small=small), way)
        self._reference = lambda: jax.jit(function)(*arguments)
        if way == ONNX:
            made = rammer_mlir.compile(model, num_veus=threads)
            feeds = dict(zip(made.input_names, arguments, strict=True))
            self._call: Callable[[], Any] = lambda: list(made.run(feeds).values())
            return
        compiled = (
            jax.jit(function)
            if way in (JAX, JAX_GRADIENT)
            else rammer_mlir.jax.jit(function, num_veus=threads)
        )
        self._call = lambda: jax.block_until_ready(compiled(*arguments))

    def run(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Run once on the arguments given by the network; the result is an empty dictionary.

        The interface ``Contender`` demands the argument and the result; neither is used.
        """
        self._call()
        return {}

    def seconds(self) -> list[float]:
        """Time ``RUNS`` runs after an untimed run; return the seconds of each timed run."""
        self._call()
        found: list[float] = []
        for _ in range(RUNS):
            begin = time.perf_counter()
            self._call()
            found.append(time.perf_counter() - begin)
        return found

    def error(self) -> float:
        """Return the largest relative error of the results against those of ``jax.jit``.

        The error of an array is its largest absolute difference, divided by the largest magnitude
        of the expected array.
        """
        pairs = zip(jax.tree.leaves(self._call()), jax.tree.leaves(self._reference()), strict=True)
        return max(float(np.abs(one - np.asarray(v)).max() / np.abs(v).max()) for one, v in pairs)

"""Build LSTM layers as the ONNX operator or, unrolled, as cells of elementary operators.

Both kinds of layers draw the same weights in the same order, so that a model has the same results
with either kind. "Step" means time step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.moments import Moments

HIDDEN = Moments(0.0, 0.1)
"""Approximate moments of a layer's hidden states, the same in both forms."""


@dataclass(frozen=True)
class LayerWeights:
    """An LSTM layer's weights in ONNX's layout, gates in the order input, output, forget, cell.

    Attributes:
        kernel: [4 * hidden, inputs], multiplied with the input.
        recurrent: [4 * hidden, hidden], multiplied with the previous hidden state.
        bias: [8 * hidden]: a bias for each of the two products.
    """

    kernel: weights.Floats
    """Weights of the input, [4 * hidden, inputs]."""
    recurrent: weights.Floats
    """Weights of the hidden state, [4 * hidden, hidden]."""
    bias: weights.Floats
    """Biases [8 * hidden]: of the input, then of the hidden state."""

    @property
    def hidden(self) -> int:
        """Number of hidden units."""
        return self.recurrent.shape[1]


@dataclass(frozen=True)
class State:
    """State of a layer after a time step: hidden and cell state, [N, hidden] each."""

    hidden: Value
    cell: Value


class StepSequence:
    """T time steps, as one tensor [T, N, features] or as a list of tensors [N, features]."""

    def __init__(self, g: GraphBuilder, source: Value | Sequence[Value]) -> None:
        """Wrap a tensor [T, N, features], or a list with a tensor [N, features] for each time step.

        The first access to ``steps`` of a tensor, or to ``stacked`` of a list, adds nodes to ``g``
        that split the tensor or concatenate the list.
        """
        self._g = g
        self._stacked = source if isinstance(source, Value) else None
        self._steps = None if isinstance(source, Value) else list(source)

    @property
    def stacked(self) -> Value:
        """The whole sequence, [T, N, features]."""
        if self._stacked is None:
            axes = self._g.integers(0)
            parts = [self._g.op("Unsqueeze", step, axes) for step in self.steps]
            self._stacked = self._g.op("Concat", *parts, axis=0)
        return self._stacked

    @property
    def steps(self) -> list[Value]:
        """The tensor [N, features] of each time step."""
        if self._steps is None:
            length = self.stacked.shape[0]
            axes = self._g.integers(0)
            parts = self._g.ops("Split", self.stacked, num_outputs=length, axis=0)
            self._steps = [self._g.op("Squeeze", part, axes) for part in parts]
        return self._steps


class Layer(Protocol):
    """The interface of an LSTM layer; all calls of its methods share the layer's weights."""

    def sequence(self, x: StepSequence) -> tuple[StepSequence, State]:
        """Add nodes for all time steps of ``x``; the initial state is zero.

        Return the hidden states of all time steps, and the last state.
        """
        ...

    def step(self, x: Value, state: State) -> State:
        """Add nodes for a time step on x [N, inputs] from ``state``; return the next state."""
        ...


def draw_weights(
    g: GraphBuilder, inputs: int, hidden: int, source: Moments = HIDDEN
) -> LayerWeights:
    """Draw random weights of an LSTM layer for an input with the mean and variance ``source``.

    The input contributes a variance of about 1 to the gates. The hidden state contributes less, so
    that the influence of the initial state decays over time, as in trained layers.
    """
    gates = 4 * hidden
    return LayerWeights(
        weights.uniform(g.rng, [gates, inputs], 1 / math.sqrt(inputs * source.variance)),
        weights.uniform(g.rng, [gates, hidden], 1 / math.sqrt(hidden)),
        weights.bias(g.rng, 2 * gates),
    )


class UnrolledLayer:
    """An LSTM layer as cells of MatMul, Add, Split, Sigmoid, Tanh and Mul with shared weights."""

    def __init__(self, g: GraphBuilder, drawn: LayerWeights) -> None:
        """Add the weights ``drawn`` to the graph as constants."""
        self._g = g
        self._hidden = drawn.hidden
        self._kernel = g.constant(drawn.kernel.T, "kernel")
        self._recurrent = g.constant(drawn.recurrent.T, "recurrent")
        # The biases of the input and of the hidden state are only ever added.
        self._bias = g.constant(drawn.bias.reshape(2, -1).sum(axis=0), "bias")

    def sequence(self, x: StepSequence) -> tuple[StepSequence, State]:
        """Add a cell for each time step; return all hidden states, and the last state."""
        shape = [x.steps[0].shape[0], self._hidden]
        zero = self._g.constant(np.zeros(shape, np.float32), "zero_state")
        state = State(zero, zero)
        outputs: list[Value] = []
        for t, value in enumerate(x.steps):
            with self._g.scope(f"step{t}"):
                state = self.step(value, state)
            outputs.append(state.hidden)
        return StepSequence(self._g, outputs), state

    def step(self, x: Value, state: State) -> State:
        """Add a cell on x [N, inputs] from ``state``, and return the next state."""
        g = self._g
        projected = g.op("MatMul", x, self._kernel)
        carried = g.op("MatMul", state.hidden, self._recurrent)
        gates = g.op("Add", g.op("Add", projected, carried), self._bias)
        parts = g.ops("Split", gates, num_outputs=4, axis=-1)
        # The order of ONNX's gates: input, output, forget, cell.
        enter, leave, forget = (g.op("Sigmoid", part) for part in parts[:3])
        kept = g.op("Mul", forget, state.cell)
        cell = g.op("Add", kept, g.op("Mul", enter, g.op("Tanh", parts[3])))
        hidden = g.op("Mul", leave, g.op("Tanh", cell))
        return State(replace(hidden, moments=HIDDEN), cell)


class OperatorLayer:
    """An LSTM layer as ONNX ``LSTM`` nodes."""

    def __init__(self, g: GraphBuilder, drawn: LayerWeights) -> None:
        """Add the weights ``drawn`` to the graph as constants."""
        self._g = g
        self._hidden = drawn.hidden
        self._weights = [
            g.constant(drawn.kernel[np.newaxis], "W"),
            g.constant(drawn.recurrent[np.newaxis], "R"),
            g.constant(drawn.bias[np.newaxis], "B"),
        ]

    def sequence(self, x: StepSequence) -> tuple[StepSequence, State]:
        """Add one node for all time steps; return all hidden states, and the last state."""
        hidden, state = self._node(x.stacked, [])
        return StepSequence(self._g, self._squeeze(hidden, 1)), state

    def step(self, x: Value, state: State) -> State:
        """Add a node for a sequence of one time step, and return the next state."""
        axes = self._g.integers(0)
        initial = [self._g.op("Unsqueeze", v, axes) for v in (state.hidden, state.cell)]
        return self._node(self._g.op("Unsqueeze", x, axes), [None, *initial])[1]

    def _node(self, x: Value, optional: Sequence[Value | None]) -> tuple[Value, State]:
        outputs, hidden, cell = self._g.ops(
            "LSTM", x, *self._weights, *optional, num_outputs=3, hidden_size=self._hidden
        )
        return outputs, State(self._squeeze(hidden, 0), self._squeeze(cell, 0))

    def _squeeze(self, x: Value, axis: int) -> Value:
        return self._g.op("Squeeze", x, self._g.integers(axis))


def make_layer(g: GraphBuilder, drawn: LayerWeights, unrolled: bool) -> Layer:
    """Make a layer with the weights ``drawn``: cells if ``unrolled``, else ONNX ``LSTM`` nodes."""
    return UnrolledLayer(g, drawn) if unrolled else OperatorLayer(g, drawn)
